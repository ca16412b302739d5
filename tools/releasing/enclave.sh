# Render, check and sign the manifest of the runtime $1 at /opt/keyhouse; write the results into $2.
# ENCLAVE_KEY and ISV_SVN as in deploy/container/gramine. The caller starts it in namespaces of its own.
set -eu
over=$3
mkdir -p "$2" "$over/keyhouse"
for folder in /opt/*/; do
  name=$(basename "$folder")
  [ "$name" = keyhouse ] && continue
  [ -d "$folder" ] || continue
  mkdir -p "$over/$name"
  mount --bind "$folder" "$over/$name"
done
mount --bind "$1" "$over/keyhouse"
mount --rbind "$over" /opt
manifest=$2/keyhouse.manifest
gramine-manifest -Dkeyhouse_dir=/opt/keyhouse -Darch_libdir=/opt/keyhouse/lib -Ddata_dir=/data/state \
  "-Disv_svn=$ISV_SVN" deploy/gramine/keyhouse.manifest.template "$manifest"
python3 deploy/gramine/lint.py --lock locks/coordinator.txt "$manifest"
gramine-sgx-sign --key "$ENCLAVE_KEY" --manifest "$manifest" --output "$manifest.sgx"
python3 deploy/gramine/lint.py --lock locks/coordinator.txt "$manifest.sgx"
