"""Coordinator processes that are killed under concurrent writes, again and again.

Oracle: after each restart every secret holds a value that was acknowledged or the one that was in
flight; manifest and root are the same; and the update log has one entry for each write that is
there, no more and no fewer. A case is the moment of one kill: seconds after the first request, or
after the first answer to a write. All kills hit one deployment.
"""

import shutil
import tempfile
from pathlib import Path
from random import Random
from typing import ClassVar, Final

import msgspec
from fuzz.target import FindingError, Target
from support.process.kills import Ledger, Writer
from support.process.server import PATIENCE, Server
from support.samples.deployment import manifest, user

__all__ = ["KillTarget"]

_WRITERS: Final = 4
_A_DEPLOYMENT: Final = 250  # kills; then a new one, for its log only grows
_MOMENTS: Final = (0.001, 0.01, 0.05, 0.2, 0.5)  # seconds, at most
_ANSWERED: Final = 0.75  # the part of kills that wait for the first answer to a write

_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(tuple[float, bool])


class _Deployment:
    """A real process over a directory, and what is known of it."""

    def __init__(self, folder: Path, *, cold: bool) -> None:
        self.server = Server(folder / "data", cold=cold)
        self.ledger = Ledger(_WRITERS)
        self.kills = 0
        with self.server, self.server.client() as client:
            if client.set_manifest(manifest(_WRITERS)).status != 200:
                raise FindingError("the first manifest was refused")
            self.identity = self._identity()
            self.server.kill()

    def round(self, seconds: float, *, answered: bool) -> int:
        """Start, check, write, kill; return how many writes were acknowledged."""
        self.kills += 1
        self.server.start()
        self._check()
        before = sum(self.ledger.acknowledged)
        writers = [
            Writer(self.server.client(user("writer")), f"key{n}", self.ledger.acknowledged[n] + 1)
            for n in range(_WRITERS)
        ]
        for writer in writers:
            writer.start()
        if answered:
            writers[0].answered.wait(PATIENCE)
        writers[0].join(seconds)
        self.server.kill()
        for number, writer in enumerate(writers):
            writer.join()
            writer.client.close()
            if writer.refused:
                raise FindingError(f"a write was refused: {writer.refused[0]!r}")
            self.ledger.acknowledged[number] = writer.acknowledged
            self.ledger.attempted[number] = writer.attempted
        return sum(self.ledger.acknowledged) - before

    def _check(self) -> None:
        if self._identity() != self.identity:
            raise FindingError("another manifest or root came back")
        with self.server.client(user("writer")) as client:
            try:
                self.ledger.check(client)
            except AssertionError:
                raise FindingError(
                    "an acknowledged write was lost, or one that was never made is there"
                ) from None
            log = client.get("/api/v2/update").data["updateLog"]
        if len(log) != 1 + sum(self.ledger.acknowledged):
            raise FindingError("the update log has other entries than there were writes")

    def _identity(self) -> tuple[object, object]:
        with self.server.client() as client:
            fingerprint = client.get("/api/v2/manifest").data["manifestFingerprint"]
            return fingerprint, client.get("/api/v2/quote").data["cert"]

    def end(self) -> None:
        """Kill what still runs."""
        process = self.server.process
        if process is not None and process.poll() is None:
            self.server.kill()


class KillTarget(Target):
    """Kills at moments that differ. ``cold``: each process in an interpreter of its own."""

    name: ClassVar[str] = "kills"
    about: ClassVar[str] = "real coordinators, killed under concurrent writes"
    patience: ClassVar[float] = 60.0

    def __init__(self, *, cold: bool = False) -> None:
        self._cold = cold
        self._folder: Path | None = None
        self._deployment: _Deployment | None = None

    def draw(self, chance: Random) -> bytes:
        """Return a moment; three of four begin at the first answer, however slow the machine is."""
        return _encode((chance.choice(_MOMENTS) * chance.random(), chance.random() < _ANSWERED))

    def judge(self, case: bytes) -> str:
        """Play one round. What was found is left on the disk."""
        if self._deployment is None or self._deployment.kills >= _A_DEPLOYMENT:
            self.close()
            self._folder = Path(tempfile.mkdtemp(prefix="keyhouse-fuzz-kills-"))
            self._deployment = _Deployment(self._folder, cold=self._cold)
        try:
            seconds, answered = _decoder.decode(case)
            written = self._deployment.round(seconds, answered=answered)
        except BaseException as error:
            self._deployment.end()
            error.add_note(f"kept: {self._folder}")
            self._folder = None
            raise
        return "killed after writes" if written else "killed before a write was acknowledged"

    def close(self) -> None:
        """End the process and remove its directory."""
        if self._deployment is not None:
            self._deployment.end()
        if self._folder is not None:
            shutil.rmtree(self._folder)
        self._deployment = self._folder = None
