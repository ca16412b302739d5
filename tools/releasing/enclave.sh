# Render, check and sign the manifest of the runtime $1 at /opt/keyhouse; write the results into $2.
# $3 is a new folder for mounts. Further words are options of gramine-manifest. ENCLAVE_KEY names the key,
# and SIGNING_DATE the date in the signature. The caller starts the script in separate namespaces.
set -eu
runtime=$1 results=$2 over=$3
shift 3
mkdir -p "$results" "$over/keyhouse"
for folder in /opt/*/; do
  name=$(basename "$folder")
  [ "$name" = keyhouse ] && continue
  [ -d "$folder" ] || continue
  mkdir -p "$over/$name"
  mount --bind "$folder" "$over/$name"
done
mount --bind "$runtime" "$over/keyhouse"
mount --rbind "$over" /opt
manifest=$results/keyhouse.manifest
gramine-manifest "$@" deploy/gramine/keyhouse.manifest.template "$manifest"
# The lint compares with the Python of the runtime.
/usr/bin/python3 -I -B deploy/gramine/lint.py --lock locks/coordinator.txt "$manifest"
gramine-sgx-sign --quiet --key "$ENCLAVE_KEY" --date "$SIGNING_DATE" --manifest "$manifest" --output "$manifest.sgx" \
  --sigfile "$results/keyhouse.sig"
/usr/bin/python3 -I -B deploy/gramine/lint.py --lock locks/coordinator.txt "$manifest.sgx"
/usr/bin/python3 -I -B -c 'import graminelibos as g; print(g.__version__); print(g.SGX_LIBPAL)' >"$results/gramine"
