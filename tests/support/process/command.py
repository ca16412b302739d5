"""Runs the `keyhouse` command as a shell would, and reads how it ended."""

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import NamedTuple

from support.process.start import start

_LONGEST = 60.0


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


class RefusedStart(NamedTuple):
    """How a coordinator refused to start, and what it had logged before."""

    error: str
    hint: str
    log: list[dict[str, object]]


def run(
    *words: str,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
    stdin: bytes = b"",
) -> Ended:
    """Return how ``keyhouse`` ended, started with these words and variables only.

    It remembers coordinators until it ends, unless ``env`` says where.
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
    """Start a coordinator that must refuse: exit code 1, a message, a hint, and nothing else."""
    given = ("--platform", platform, "--data-dir", str(data))
    anywhere = ("--client-addr", "127.0.0.1:0", "--mesh-addr", "127.0.0.1:0")
    return refusal(run("serve", *given, *anywhere, *words, env=env))


def refusal(ended: Ended) -> RefusedStart:
    """Return what was told; every other line is one of the log."""
    assert (ended.code, ended.out) == (1, ""), ended.err
    *logged, error, hint = ended.err.splitlines()
    assert error.startswith("error: "), ended.err
    assert hint.startswith("hint: "), ended.err
    log = [json.loads(line) for line in logged]
    return RefusedStart(error.removeprefix("error: "), hint.removeprefix("hint: "), log)
