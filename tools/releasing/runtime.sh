# Make the runtime of the coordinator's enclave in $1, from the tree $PWD and the wheels in $2.
# $3 is a new folder for mounts. The runtime has Debian's Python, as in deploy/container/gramine. The
# caller starts the script in separate namespaces.
#
# Bytecode contains paths, so the script makes the runtime at its final path, /opt/keyhouse. A mount over
# /opt in the namespace leads to the target folder. All further folders of /opt remain visible.
set -eu
[ -d /opt ] || { echo "/opt does not exist" >&2; exit 1; }
over=$3
mkdir -p "$1" "$over/keyhouse"
for folder in /opt/*/; do
  name=$(basename "$folder")
  [ "$name" = keyhouse ] && continue
  [ -d "$folder" ] || continue
  mkdir -p "$over/$name"
  mount --bind "$folder" "$over/$name"
done
mount --rbind "$over" /opt
pip() { /usr/bin/python3 -m pip -q --python /opt/keyhouse/bin/python3 install --no-compile "$@"; }
/usr/bin/python3 -I -B deploy/container/gramine/standalone.py /opt/keyhouse
pip --require-hashes --no-deps --only-binary :all: -r locks/coordinator.txt
pip --no-index --find-links "$2" keyhouse-coordinator
/usr/bin/python3 -I -B deploy/container/gramine/standalone.py /opt/keyhouse
/opt/keyhouse/bin/python3 -I -B deploy/container/finish.py /opt/keyhouse keyhouse-coordinator locks/coordinator.txt
cp -a /opt/keyhouse/. "$1/"
