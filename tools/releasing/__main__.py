"""Make a release: build twice, compare, describe, sign and tag. See CONTRIBUTING.md."""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from releasing.build import Inputs
from releasing.clone import prepare, require_ready, take_over
from releasing.demands import Demands
from releasing.measurement import Enclave
from releasing.outputs import Outputs, Signing, withdraw_signatures
from releasing.sigstore import Sigstore

_ROOT: Final = Path(__file__).parents[2]
_DAY: Final = 24 * 3600


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/release", description=__doc__)
    parser.add_argument("version", help="three numbers, such as 0.1.0")
    parser.add_argument("--dry-run", action="store_true", help="do not commit, tag or sign")
    parser.add_argument("--output", type=Path, help="new folder for the outputs")
    parser.add_argument("--tools", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--key", type=Path, help="Ed25519 key that signs the sums (PEM)")
    parser.add_argument("--key-name", default="keyhouse-release", help="name of this key")
    parser.add_argument("--sigstore", metavar="IDENTITY", help="sign with Sigstore, too")
    parser.add_argument("--sigstore-issuer", metavar="URL", help="OIDC issuer of the identity")
    parser.add_argument("--enclave-key", type=Path, help="RSA key that signs the enclave (PEM)")
    parser.add_argument("--isv-svn", type=int, default=1, help="security version of the enclave")
    parser.add_argument("--python-image", default="", help="base of the image, by its digest")
    return parser


def _demands(given: argparse.Namespace) -> Demands:
    """Return the demands of the options. Ends the program with 2 for an invalid combination."""
    if (given.sigstore is None) != (given.sigstore_issuer is None):
        _parser().error("--sigstore and --sigstore-issuer belong together: name both or neither")
    if not (given.dry_run or given.key or given.sigstore):
        _parser().error("the release has no signature: name --key, or use --sigstore")
    return Demands(
        key=given.key,
        sigstore=given.sigstore and Sigstore(given.sigstore, given.sigstore_issuer),
        enclave=Enclave(given.enclave_key, given.isv_svn),
        python_image=given.python_image,
        python=(sys.version_info[0], sys.version_info[1]),
    )


def main(words: Sequence[str]) -> int:
    """Make the release, and return the exit code: 0 if the release is made, 1 for an error."""
    given = _parser().parse_args(words)
    demands = _demands(given)
    output = given.output or _ROOT / "dist" / f"release-{given.version}"
    begun = time.monotonic()

    def report(text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - begun:6.1f} s  {text}\n")
        sys.stdout.flush()

    try:
        demands.require()
        if not given.dry_run:
            require_ready(_ROOT, given.version)
        with tempfile.TemporaryDirectory(prefix="keyhouse-release-") as temporary:
            work = Path(temporary)
            output.mkdir(parents=True)
            # The start of this day in UTC. A correct clock is never before this time.
            build_time = int(time.time()) // _DAY * _DAY
            made = prepare(_ROOT, work, given.version, build_time, dry=given.dry_run)
            report(f"prepared version {given.version} with the build time {build_time}")
            inputs = Inputs(given.version, build_time, Path(sys.executable), given.python_image)
            outputs = Outputs(made, inputs, work, output, given.tools, report)
            missing = outputs.build(demands.enclave)
            signing = Signing(given.key, given.key_name, demands.sigstore)
            try:
                missing = outputs.finish(missing, signing, dry=given.dry_run)
                if not given.dry_run:
                    take_over(_ROOT, work, given.version)
                    report(f"added the commit and the tag v{given.version} to this clone")
            except (OSError, RuntimeError, ValueError):
                withdraw_signatures(output)
                raise
    except (OSError, RuntimeError, ValueError) as fault:
        sys.stderr.write(f"error: {fault}\n")
        return 1
    for each in missing:
        report(f"MISSING {each.output}: {each.reason}")
    report(f"outputs: {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
