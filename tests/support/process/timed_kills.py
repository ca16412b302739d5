"""SIGKILL at the n-th write to the host, for each n of some commits: chance decides no moment.

strace sends the signal as the process enters the n-th ``pwrite64`` since its start. A commit of
SQLite has several such calls. A kill between two calls must lose no acknowledged change.
"""

import re
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Final

from support.process.server import Client, Server
from support.process.strace import injector
from support.samples.deployment import manifest, user

__all__ = ["lose_nothing_by_kills_at_writes"]

_BEFORE: Final = 5  # acknowledged uploads before the kill
_WRITES: Final = 14  # to the host, after the start: some commits
_MOST: Final = 200  # uploads: the kill must come before this number
_NEVER: Final = 65_535  # the largest number that strace accepts

Make = Callable[[Path, Sequence[str]], Server]
"""Makes a server over a data directory, with words of a wrapper before the command."""


def lose_nothing_by_kills_at_writes(folder: Path, make: Make) -> None:
    """Kill a coordinator at each of some writes; require the whole state after a restart."""
    seed = make(folder / "seed", ())
    with seed, seed.client() as client:
        assert client.set_manifest(manifest(1)).status == 200
    with seed, seed.client(user("writer")) as client:
        assert _upload(client, range(1, _BEFORE + 1)) == _BEFORE
        seed.kill()
    first = _writes_of_a_start(folder, make, seed.data)
    ends = [
        _killed(folder / f"killed{number}", make, seed.data, number)
        for number in range(max(first - 1, 1), first + _WRITES)
    ]
    assert max(ends) > _BEFORE + 1  # the kills hit several commits


def _writes_of_a_start(folder: Path, make: Make, seed: Path) -> int:
    """Return the number of writes to the host in a start, until the coordinator serves."""
    trace = folder / "trace"
    server = make(_copy(seed, folder / "counted"), injector(trace, "pwrite64", _NEVER))
    server.start()
    server.kill()
    calls = re.findall(r"^(\d+) +pwrite64\(", trace.read_text(errors="replace"), re.MULTILINE)
    return max(Counter(calls).values())  # the thread of SQLite


def _killed(folder: Path, make: Make, seed: Path, number: int) -> int:
    """Kill a coordinator at the write ``number``; return the last acknowledged value."""
    folder.mkdir()
    data = _copy(seed, folder / "data")
    server = make(data, injector(folder / "trace", "pwrite64", number))
    acknowledged = _BEFORE
    try:
        server.start()
        with server.client(user("writer")) as client:
            acknowledged = _upload(client, range(_BEFORE + 1, _MOST))
    except (AssertionError, OSError, HTTPException):  # killed before or during service
        pass
    assert server.process is not None
    try:
        assert server.process.wait(server.patience) != 0
    finally:
        server.process.kill()
    after = make(data, ())
    with after, after.client(user("writer")) as client:
        held = int.from_bytes(client.secrets(["key0"])["key0"] or b"")
    assert acknowledged <= held <= acknowledged + 1, f"killed at the write {number}"
    return acknowledged


def _upload(client: Client, values: range) -> int:
    """Upload ``values`` in order until the process ends; return the last acknowledged value."""
    acknowledged = values.start - 1
    try:
        for value in values:
            assert client.upload({"key0": value.to_bytes(16)}).status == 200
            acknowledged = value
    except (OSError, HTTPException):
        pass
    return acknowledged


def _copy(seed: Path, data: Path) -> Path:
    shutil.copytree(seed, data)
    data.chmod(0o700)
    return data
