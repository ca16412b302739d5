"""Serves the log of an evidence file, as a coordinator would."""

from collections.abc import Mapping

from keyhouse.client import CallRefusedError
from keyhouse.client.public_log import LogCheckpoint, checkpoint_in
from keyhouse.evidence.bundle import Evidence
from keyhouse.transparency.tiles import ENTRIES, WIDTH, Tile, bundle
from keyhouse.transparency.tree import leaf_hash
from keyhouse.wire.client_api import LogKeyData

__all__ = ["ServedEvidence"]


class ServedEvidence:
    """The log of ``evidence``: at most 256 entries, and all entries have their content."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self.root_der = evidence.root
        entries = [each for each in evidence.entries if isinstance(each, bytes)]
        assert len(entries) == len(evidence.entries) <= WIDTH
        self._parts: Mapping[str, bytes] = {
            f"tile/{Tile(ENTRIES, 0, len(entries)).path}": bundle(entries),
            f"tile/{Tile(0, 0, len(entries)).path}": b"".join(map(leaf_hash, entries)),
            **{f"object/{name}": raw for name, raw in evidence.objects.items()},
        }

    def log_key(self) -> LogKeyData:
        """Return the key of the log."""
        log = self._evidence.log
        return LogKeyData(
            origin=self._evidence.origin, verifier_key=log.key, signature=log.signature
        )

    def log_checkpoint(self) -> LogCheckpoint:
        """Return the last checkpoint."""
        return checkpoint_in(self._evidence.checkpoints[-1].encode(), self._evidence.log.key)

    def witnessed_checkpoint(self) -> LogCheckpoint:
        """Return the last checkpoint."""
        return self.log_checkpoint()

    def log_part(self, path: str) -> bytes:
        """Return a tile or an object."""
        if path not in self._parts:
            raise CallRefusedError(404, "there is no such part")
        return self._parts[path]
