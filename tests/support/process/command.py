"""Runs the `keyhouse` command as a shell would, and returns exit code and output."""

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import NamedTuple

from support.process.start import start

_LONGEST = 60.0


class Ended(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


class RefusedStart(NamedTuple):
    """The error, the hint and the log of a coordinator that refused to start."""

    error: str
    hint: str
    log: list[dict[str, object]]


def run(
    *words: str,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
    stdin: bytes = b"",
) -> Ended:
    """Run ``keyhouse`` with only these words and variables; return the end.

    The memory of coordinators is temporary, unless ``env`` sets ``XDG_STATE_HOME``.
    """
    with (
        TemporaryDirectory() as state,
        TemporaryFile() as given,
        TemporaryFile() as output,
        TemporaryFile() as errors,
    ):
        given.write(stdin)
        given.seek(0)
        process = start(
            words,
            stdin=given,
            output=output,
            errors=errors,
            environment={"XDG_STATE_HOME": state, **(env or {})},
            folder=folder,
        )
        try:
            code = process.wait(_LONGEST)
        finally:
            process.kill()
        output.seek(0)
        errors.seek(0)
        return Ended(code, output.read().decode(), errors.read().decode())


def refused_start(
    data: Path, *words: str, env: Mapping[str, str] | None = None, platform: str = "simulation"
) -> RefusedStart:
    """Start a coordinator that must refuse: exit code 1, an error, a hint, no output."""
    given = ("--platform", platform, "--data-dir", str(data))
    anywhere = ("--client-addr", "127.0.0.1:0", "--mesh-addr", "127.0.0.1:0")
    return refusal(run("serve", *given, *anywhere, *words, env=env))


def refusal(ended: Ended) -> RefusedStart:
    """Return the refusal in the output; all earlier lines must be lines of the log."""
    assert (ended.code, ended.out) == (1, ""), ended.err
    *logged, error, hint = ended.err.splitlines()
    assert error.startswith("error: "), ended.err
    assert hint.startswith("hint: "), ended.err
    log = [json.loads(line) for line in logged]
    return RefusedStart(error.removeprefix("error: "), hint.removeprefix("hint: "), log)
