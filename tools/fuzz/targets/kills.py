"""Kills of a coordinator process under concurrent writes.

Oracle: after each restart every secret has the last acknowledged value, or the value of the write
without an answer. Manifest and root are the same. The update log has exactly one entry for each
stored write. A case is the moment of one kill, in seconds after the first request, or after the
first answer to a write. A deployment has up to 250 kills in sequence.
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
_A_DEPLOYMENT: Final = 250  # kills of one deployment; a new deployment has a short log again
_MOMENTS: Final = (0.001, 0.01, 0.05, 0.2, 0.5)  # longest times until a kill, in seconds
_ANSWERED: Final = 0.75  # share of kills after the first answer to a write

_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(tuple[float, bool])


class _Deployment:
    """A real coordinator process with its directory, and the expected state."""

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
        """Start, check, write and kill; return the number of acknowledged writes."""
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
            raise FindingError("manifest or root differ after the restart")
        with self.server.client(user("writer")) as client:
            try:
                self.ledger.check(client)
            except AssertionError:
                raise FindingError(
                    "an acknowledged write was lost, or a secret has a value that nobody wrote"
                ) from None
            log = client.get("/api/v2/update").data["updateLog"]
        if len(log) != 1 + sum(self.ledger.acknowledged):
            raise FindingError(
                f"the update log has {len(log)} entries,"
                f" expected {1 + sum(self.ledger.acknowledged)}"
            )

    def _identity(self) -> tuple[object, object]:
        with self.server.client() as client:
            fingerprint = client.get("/api/v2/manifest").data["manifestFingerprint"]
            return fingerprint, client.get("/api/v2/quote").data["cert"]

    def end(self) -> None:
        """Kill the process if it still runs."""
        process = self.server.process
        if process is not None and process.poll() is None:
            self.server.kill()


class KillTarget(Target):
    """Kills at random moments. ``cold``: each process starts in a new interpreter."""

    name: ClassVar[str] = "kills"
    about: ClassVar[str] = "real coordinators, killed under concurrent writes"
    patience: ClassVar[float] = 60.0

    def __init__(self, *, cold: bool = False) -> None:
        self._cold = cold
        self._folder: Path | None = None
        self._deployment: _Deployment | None = None

    def draw(self, chance: Random) -> bytes:
        """Return a moment. Three of four wait for the first answer, also on a slow machine."""
        return _encode((chance.choice(_MOMENTS) * chance.random(), chance.random() < _ANSWERED))

    def judge(self, case: bytes) -> str:
        """Run one round. After a finding, the directory remains on the disk."""
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
