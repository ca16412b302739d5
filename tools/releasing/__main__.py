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
from releasing.measurement import Enclave
from releasing.outputs import Outputs, Signing

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
    parser.add_argument("--sigstore", action="store_true", help="also sign with Sigstore")
    parser.add_argument("--enclave-key", type=Path, help="RSA key that signs the enclave (PEM)")
    parser.add_argument("--isv-svn", type=int, default=1, help="security version of the enclave")
    parser.add_argument("--python-image", default="", help="base of the image, by its digest")
    return parser


def main(words: Sequence[str]) -> int:
    """Return the exit code."""
    given = _parser().parse_args(words)
    output = given.output or _ROOT / "dist" / f"release-{given.version}"
    if not (given.dry_run or given.key or given.sigstore):
        _parser().error("the release has no signature: name --key, or use --sigstore")
    begun = time.monotonic()

    def report(text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - begun:6.1f} s  {text}\n")
        sys.stdout.flush()

    try:
        if not given.dry_run:
            require_ready(_ROOT, given.version)
        with tempfile.TemporaryDirectory(prefix="keyhouse-release-") as temporary:
            work = Path(temporary)
            output.mkdir(parents=True)
            # No correct clock is before the start of this day, in UTC.
            build_time = int(time.time()) // _DAY * _DAY
            made = prepare(_ROOT, work, given.version, build_time, dry=given.dry_run)
            report(f"prepared version {given.version} with the build time {build_time}")
            inputs = Inputs(given.version, build_time, Path(sys.executable), given.python_image)
            outputs = Outputs(made, inputs, work, output, given.tools, report)
            missing = outputs.build(Enclave(given.enclave_key, given.isv_svn))
            signing = Signing(given.key, given.key_name, given.sigstore)
            missing = outputs.finish(missing, signing, dry=given.dry_run)
            if not given.dry_run:
                take_over(_ROOT, work, given.version)
                report(f"added the commit and the tag v{given.version} to this clone")
    except (OSError, RuntimeError, ValueError) as fault:
        sys.stderr.write(f"error: {fault}\n")
        return 1
    for each in missing:
        report(f"MISSING {each.output}: {each.reason}")
    report(f"outputs: {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
