"""The system calls of a process, from the output of strace, and their effect on durability."""

import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

_PATIENCE: Final = 30.0
_CALLS: Final = (
    "mkdir,mkdirat,unlink,unlinkat,rename,renameat,renameat2,fsync,fdatasync,"
    "pwrite64,write,writev,sendto,sendmsg,read,readv,recvfrom,recvmsg"
)
_LINE: Final = re.compile(
    r"^(?P<thread>\d+) +(?:(?P<call>\w+)\((?P<args>.*?)|"
    r"<\.\.\. (?P<resumed>\w+) resumed>(?P<rest>.*?))"
    r"(?P<end>\) += (?P<result>-?\d+|\?)(?P<note>.*)| <unfinished \.\.\.>)$"
)
_DESCRIPTOR: Final = re.compile(r"^(?:\d+|AT_FDCWD)<(?P<target>.*?)>(?:,|$)")
_NAMES: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')


class Call(NamedTuple):
    """A system call. ``began`` and ``ended`` are lines of the trace."""

    name: str
    target: str  # the target of the first descriptor: a path or an address pair
    names: tuple[str, ...]  # paths among the arguments
    result: int
    began: int
    ended: int

    @property
    def sends(self) -> bool:
        return self.name in {"write", "writev", "sendto", "sendmsg"}

    @property
    def receives(self) -> bool:
        return self.name in {"read", "readv", "recvfrom", "recvmsg"}

    @property
    def syncs(self) -> bool:
        return self.name in {"fsync", "fdatasync"} and self.result == 0


def tracer(output: Path) -> list[str]:
    """Return words before a command, for a trace into ``output``. The command stays our child."""
    return [_strace(), "-D", "-f", "-yy", "-s", "0", "-e", f"trace={_CALLS}", "-o", str(output)]


def killed_before_renaming(path: Path, output: Path) -> list[str]:
    """Return words before a command, for a kill at a rename of the file ``path``."""
    calls = "/^rename"
    inject = f"inject={calls}:signal=SIGKILL"
    words = ["-D", "-f", "-P", str(path), "-e", f"trace={calls}", "-e", inject]
    return [_strace(), *words, "-o", str(output)]


def injector(output: Path, call: str, number: int) -> list[str]:
    """Return words before a command, for a kill of the process at a ``call``.

    The kill comes at the ``number``-th call of any thread: strace counts for each thread. Only
    these calls are in ``output``. The process stays our child.
    """
    words = [_strace(), "-D", "-f", "-qq", "-s", "0", "-e", f"trace={call}"]
    return [*words, "-e", f"inject={call}:signal=KILL:when={number}", "-o", str(output)]


def _strace() -> str:
    strace = shutil.which("strace")
    if strace is None:
        if os.environ.get("CI"):
            pytest.fail("strace is missing: what is durable cannot be shown")
        pytest.skip("strace is not installed")
    return strace


def read_trace(output: Path, process: int) -> list[Call]:
    """Return the successful calls in the order of their ends; wait for the end of ``process``."""
    deadline = time.monotonic() + _PATIENCE
    while not re.search(rf"^{process} +\+\+\+ exited with", output.read_text(), re.MULTILINE):
        assert time.monotonic() < deadline, "the trace does not end"
        time.sleep(0.01)  # polls a process: there is no event to wait for
    return list(_calls(output.read_text().splitlines()))


def _calls(lines: Sequence[str]) -> Iterator[Call]:
    pending: dict[str, tuple[str, str, int]] = {}
    for place, line in enumerate(lines):
        found = _LINE.match(line)
        if found is None:
            continue
        parts = found.groupdict()
        if parts["result"] is None:
            if parts["call"]:
                pending[parts["thread"]] = (parts["call"], parts["args"], place)
            continue
        name, args, began = parts["call"], parts["args"], place
        if parts["resumed"]:
            name, args, began = pending.pop(parts["thread"])
            args += parts["rest"]
        if parts["result"] != "?" and int(parts["result"]) >= 0:
            yield _call(name, args, parts, began, place)


def _call(name: str, args: str, parts: Mapping[str, str | None], began: int, ended: int) -> Call:
    first = _DESCRIPTOR.match(args)
    target = first["target"] if first else ""
    names = tuple(_NAMES.findall(args))
    return Call(name, target, names, int(parts["result"] or 0), began, ended)


class Durability:
    """Bytes and names below ``folder`` that a power cut may lose.

    ``directories``: a sync of the directory makes a name durable. Otherwise such a sync has no
    effect, as under Gramine. A name is then durable after a sync of the file, or of a file below.
    """

    def __init__(self, folder: Path, *, directories: bool = True) -> None:
        self._folder = f"{folder}/"
        self._directories = directories
        self._known: set[str] = set()
        self.bytes: set[str] = set()  # files with writes after their last sync
        self.names: set[str] = set()  # paths that need a sync to make the names durable

    def see(self, call: Call) -> None:
        """Apply ``call``."""
        if call.syncs:
            self.bytes.discard(call.target)
            if self._directories:
                self.names.discard(call.target)
            elif call.target in self._known:
                self.names -= {name for name in self.names if _is_at_or_above(name, call.target)}
        elif call.name in {"write", "pwrite64"} and self._ours(call.target):
            self.bytes.add(call.target)
            if call.target not in self._known:  # the loss of an empty file is harmless
                self._known.add(call.target)
                self._name(call.target)
        elif call.name in {"mkdir", "mkdirat"} and self._ours(call.names[0]):
            self._name(call.names[0])
        elif call.name in {"unlink", "unlinkat"}:
            for held in (self.bytes, self._known, self.names):
                held.discard(call.names[0])
        elif call.name.startswith("rename") and self._ours(call.names[-1]):
            self._rename(call.names[0], call.names[-1])

    def _rename(self, source: str, target: str) -> None:
        for held in (self._known, self.bytes, self.names):
            moved = {path for path in held if path == source or path.startswith(source + "/")}
            held.difference_update(moved)
            held.update({target + path[len(source) :] for path in moved})
        self._name(target)

    def _name(self, path: str) -> None:
        self.names.add(_parent(path) if self._directories else path)

    def _ours(self, path: str) -> bool:
        return f"{path}/".startswith(self._folder) and not path.endswith("/lock")


def _is_at_or_above(path: str, file: str) -> bool:
    return f"{file}/".startswith(f"{path}/")


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
