"""The options of `keyhouse version --verify`, and the verification of the named files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from keyhouse.base.errors import RefusedError
from keyhouse.cli.output.show import show_json
from keyhouse.cli.parser.usage import WrongUsageError

_NAME_THE_KEY: Final = "pass --release-key with the file of the published key"


class ReleaseOptions(msgspec.Struct, frozen=True):
    """The options that only `--verify` uses; None means that an option is not given.

    ``release_key``: the file with the public key of releases. ``environment``: the folder of
    installed packages. ``expect_version``: the version for the signature to state.
    """

    release_key: str | None
    without_signature: bool
    environment: str | None
    expect_version: str | None

    def check(self) -> None:
        """Raise ``WrongUsageError`` for options that contradict each other."""
        if self.without_signature == (self.release_key is not None):
            raise WrongUsageError(
                "--verify needs either --release-key or --without-signature", hint=_NAME_THE_KEY
            )
        if self.without_signature and self.expect_version is not None:
            raise WrongUsageError(
                "--expect-version needs a signature: only the signature states the version",
                hint=_NAME_THE_KEY,
            )

    def refuse(self) -> None:
        """Raise ``WrongUsageError`` if an option is given: the command line lacks `--verify`."""
        if self.release_key or self.environment or self.without_signature or self.expect_version:
            raise WrongUsageError(
                "--verify is missing: the given options only have an effect with --verify",
                hint="add --verify and the files to verify",
            )


def verify_release(words: Sequence[str], options: ReleaseOptions, *, as_json: bool) -> None:
    """Verify the files of a release, and print each check.

    ``words`` are the paths of the files. Raises ``RefusedError`` if a check fails.
    """
    from keyhouse.base.user_files import read_file
    from keyhouse.cli.release.verify import verify

    # An empty text is not None: an empty variable of a script must not switch a check off.
    file, folder = options.release_key, options.environment
    raw = read_file(file) if file is not None else None
    key = raw.decode("utf-8", "replace").strip() if raw is not None else None
    packages = Path(folder) if folder is not None else None
    failed = 0
    shown = []
    for check in verify(map(Path, words), key, packages, options.expect_version):
        failed += not check.passed
        shown.append({"subject": check.subject, "result": check.result, "passed": check.passed})
        if not as_json:
            click.echo(f"{'ok    ' if check.passed else 'FAILED'}  {check.subject}: {check.result}")
    if as_json:
        show_json({"signed": key is not None, "checks": shown})
    elif key is None:
        click.echo("The signature is NOT verified: these checks also pass for forged files.")
    if failed:
        raise RefusedError(f"{failed} of {len(shown)} checks failed", hint="do not use these files")
