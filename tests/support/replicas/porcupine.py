"""A second judge of histories: porcupine, a linearizability checker in Go."""

import math
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
import pytest

from support.process.tool import built_with_go, tool
from support.replicas.linearizability import REFUSED, UNKNOWN, Call, Object

__all__ = ["Porcupine", "porcupine_built"]

_SOURCE: Final = Path(__file__).parents[2] / "testing" / "porcupine_oracle"
_DOWNLOAD: Final = 60.0  # seconds


class Porcupine:
    """The built program."""

    def __init__(self, program: Path) -> None:
        self._program = program

    def opinion(
        self, history: Mapping[str, Sequence[Call]], kinds: Callable[[str], Object]
    ) -> dict[str, str]:
        """Return for each key ``Ok``, ``Illegal``, or ``Unknown`` after a timeout."""
        lines = [_encoded(kinds(key), calls) for key, calls in history.items()]
        with TemporaryDirectory() as folder:
            file = Path(folder, "histories")
            file.write_bytes(b"".join(line + b"\n" for line in lines))
            ran = subprocess.run([self._program, file], check=True, capture_output=True, text=True)
        return dict(zip(history, ran.stdout.split(), strict=True))


@contextmanager
def porcupine_built() -> Iterator[Porcupine]:
    """Build the program; skip the test without Go, or without Go's module proxy.

    ``go.sum`` pins the bytes from the proxy.
    """
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
    fetch = [tool("go"), "mod", "download"]
    try:
        subprocess.run(
            fetch, cwd=_SOURCE, env=environment, check=True, timeout=_DOWNLOAD, capture_output=True
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        told = (error.stderr or b"").decode(errors="replace")
        if "checksum mismatch" in told:
            pytest.fail(told)
        pytest.skip(f"porcupine is not available from Go's module proxy: {told[-300:]}")
    with TemporaryDirectory() as folder:
        yield Porcupine(built_with_go(_SOURCE, Path(folder)))


def _encoded(kind: Object, calls: Sequence[Call]) -> bytes:
    happened = [call for call in calls if call.result is not REFUSED]
    return msgspec.json.encode(
        {
            "Kind": kind.name,
            "Initial": _plain(kind.initial),
            "Limit": kind.limit,
            "Calls": [
                {
                    "What": call.what,
                    "Argument": _plain(call.argument),
                    "Result": None if call.result is UNKNOWN else _plain(call.result),
                    "Told": call.result is not UNKNOWN,
                    "Began": call.began,
                    "Ended": None if call.ended == math.inf else call.ended,
                }
                for call in happened
            ],
        }
    )


def _plain(value: Any) -> Any:
    return f"bytes {value.hex()}" if isinstance(value, bytes) else value
