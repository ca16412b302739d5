"""Poll a log: verify each new leaf as an auditor does, and describe the leaf for people."""

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple, Protocol

import msgspec

from keyhouse.base.errors import RefusedError
from keyhouse.cli.watch.state import KnownLog
from keyhouse.client import CallRefusedError, TrustError
from keyhouse.client.public_log import LogCheckpoint
from keyhouse.evidence.errors import HistoryRefusedError
from keyhouse.evidence.hardware import vouched_start
from keyhouse.evidence.history import History, LogIdentity, LogReferences, follow, require_whole
from keyhouse.evidence.pins import Pins
from keyhouse.evidence.wording import is_other_code, text_of
from keyhouse.transparency import leaf as leaves, tree
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.leaf import Leaf, StartedLeaf, object_name, read_leaf
from keyhouse.transparency.log_reader import entries_after
from keyhouse.transparency.tiles import nodes_of
from keyhouse.wire.client_api import LogKeyData


class LogFinding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A new leaf of the log, or a problem. If ``alert``, a person should read the finding."""

    host: str
    # The kind of the leaf, or: silence, answers, not-witnessed, withheld, witness-silent, ended.
    kind: str
    text: str
    alert: bool = False
    index: int | None = None  # the leaf's index
    claimed: str = ""  # the leaf's time, as the coordinator claims
    why: tuple[str, ...] = ()  # the reasons for an alert


def of_leaf(
    host: str, index: int, leaf: Leaf, before: History | None, reasons: Iterable[str]
) -> LogFinding:
    """Return the finding about the new ``leaf`` with the number ``index`` in the log of ``host``.

    ``before`` is the verified history before the leaf, or None. ``reasons`` are texts: with a
    reason, the finding is an alert. A leaf about unexpected code, a cancellation or a revocation
    adds a reason.
    """
    why = list(reasons)
    if is_other_code(leaf, before):
        why.append("different code has started than before")
    if isinstance(leaf, leaves.UpdateCancelledLeaf):
        why.append("an update was cancelled")
    if isinstance(leaf, leaves.TrustLeaf) and leaf.what == leaves.TrustChange.REVOKED:
        why.append("workloads were revoked")
    claimed = datetime.fromtimestamp(leaf.time / 1e6, UTC)
    return LogFinding(
        host=host,
        kind=leaf.__struct_config__.tag if isinstance(leaf.__struct_config__.tag, str) else "",
        text=text_of(leaf, before),
        alert=bool(why),
        index=index,
        claimed=f"{claimed:%Y-%m-%dT%H:%M:%SZ}",
        why=tuple(why),
    )


class PollResult(NamedTuple):
    """The result of a poll of a log: the findings, and the state of the log to store."""

    watched: KnownLog
    newest: LogCheckpoint
    witnessed: LogCheckpoint  # the newest cosigned checkpoint, if there are witnesses
    findings: list[LogFinding]


class BrokenLogError(TrustError):
    """A log contradicts itself or the watcher's known state of the log.

    ``parts`` has the received files of the log by path, as evidence.
    """

    def __init__(self, problem: str, parts: dict[str, bytes]) -> None:
        super().__init__(problem)
        self.parts = parts


class LogSource(Protocol):
    """The server of a log; ``Coordinator`` implements this protocol."""

    def log_key(self) -> LogKeyData:
        """Return the verifier key of the log, with the root's signature over the key."""
        ...

    def log_checkpoint(self) -> LogCheckpoint:
        """Return the newest checkpoint of the log."""
        ...

    def witnessed_checkpoint(self) -> LogCheckpoint:
        """Return the newest checkpoint of the log with cosignatures of witnesses."""
        ...

    def log_part(self, path: str) -> bytes:
        """Return the tile or object of the log at ``path``, without a verification.

        Raises ``CallRefusedError``.
        """
        ...


class LogPoll:
    """A poll of the log that ``source``, the verified coordinator at ``host``, serves.

    ``root_der`` is the coordinator's root. ``pins`` has the identity of the expected code.
    """

    def __init__(self, host: str, source: LogSource, root_der: bytes, pins: Pins) -> None:
        self._host = host
        self._pins = pins
        self._source = source
        self._root_der = root_der
        self._parts: dict[str, bytes] = {}  # as served
        self._objects: dict[str, bytes | None] = {}

    def follow(self, known: KnownLog | None) -> PollResult:
        """Read and verify the leaves since ``known``; return a finding for each leaf.

        ``known`` is the result of the last poll, or None before the first poll. Raises
        ``BrokenLogError`` and the errors of ``source``.
        """
        try:
            return self._follow(known)
        except (LogInvalidError, HistoryRefusedError, TrustError) as error:
            problem = f"the log at {self._host} is broken: {error.message}"
            raise BrokenLogError(problem, self._parts) from None

    def _follow(self, known: KnownLog | None) -> PollResult:
        root = hashlib.sha256(self._root_der).hexdigest()
        key = self._source.log_key().verifier_key
        new = self._source.log_checkpoint()
        self._parts |= {"key": key.encode(), "checkpoint": new.note}
        if known is not None and (known.root, known.key) != (root, key):
            raise LogInvalidError(
                "the root or the key of the log differs from the root or key at the last poll"
            )
        frontier = tree.Frontier() if known is None else known.frontier
        history = History(LogIdentity(new.origin, root, key)) if known is None else known.history
        instances = set() if known is None else set(known.instances)
        view = LogReferences(self._object, partial(self._root, new), instances)
        findings: list[LogFinding] = []
        for piece in entries_after(self._read, frontier, new.size, new.root):
            for entry in piece:
                leaf = _leaf(entry)
                step = follow(history, leaf, view)
                gaps = (gap.text for gap in step.gaps)
                why = (*gaps, *step.notes, *self._start_doubts(leaf, frontier))
                findings.append(of_leaf(self._host, history.size, leaf, history, why))
                history, frontier = step.history, frontier.extended([tree.leaf_hash(entry)])
            self._forget_entries()
        require_whole(history)
        note, starts = new.note.decode(), tuple(sorted(instances))
        watched = KnownLog(root, key, note, frontier, history, starts)
        return PollResult(watched, new, self._source.witnessed_checkpoint(), findings)

    def _start_doubts(self, leaf: Leaf, before: tree.Frontier) -> tuple[str, ...]:
        """Return the reasons to doubt that expected code has made the start in ``leaf``.

        The result is empty if the quote of the leaf shows expected code, or if ``leaf`` is not
        about a start. ``before`` is the frontier of the log before the leaf.
        """
        if not isinstance(leaf, StartedLeaf):
            return ()
        place, root = (before.size, before.root), self._root_der
        try:
            gaps = vouched_start(self._object, root, self._pins, leaf, place, None)
        except (RefusedError, HistoryRefusedError) as error:
            return (f"no quote vouches for this start: {error.message}",)
        return tuple(gap.text for gap in gaps)

    def _read(self, path: str) -> bytes:
        if path not in self._parts:  # a part with a given path never changes
            self._parts[path] = self._source.log_part(path)
        return self._parts[path]

    def _forget_entries(self) -> None:
        """Remove verified leaves from memory, because a log may have very many leaves."""
        self._parts = {
            path: raw for path, raw in self._parts.items() if not path.startswith("tile/entries/")
        }

    def _root(self, new: LogCheckpoint, size: int) -> bytes:
        """Return the verified root hash of the log's tree over the first ``size`` leaves.

        ``new`` is the newest checkpoint, with at least ``size`` leaves.
        """
        if not size:
            return tree.Frontier().root
        if size == new.size:
            return new.root
        nodes = nodes_of(lambda tile: self._read(f"tile/{tile.path}"), new.size)
        root = tree.root_of(nodes, size)
        proof = tree.consistency_proof(nodes, size, new.size)
        tree.require_consistent(size, new.size, proof, root, new.root)
        return root

    def _object(self, name: str) -> bytes | None:
        """Return the object ``name`` of the log, or None if the coordinator lacks the object."""
        if name not in self._objects:
            try:
                raw: bytes | None = self._source.log_part(f"object/{name}")
            except CallRefusedError as refused:
                if refused.reason != "not-found":
                    raise
                raw = None
            if raw is not None and object_name(raw) != name:
                raise LogInvalidError(
                    f"the content of the object {name} has the hash {object_name(raw)}: the"
                    " content was changed"
                )
            self._objects[name] = raw
        return self._objects[name]


def _leaf(entry: bytes) -> Leaf:
    """Return the leaf that ``entry`` encodes.

    Raises ``RefusedError`` for a leaf of a newer version of Keyhouse, and for any invalid leaf.
    """
    try:
        return read_leaf(entry)
    except LogInvalidError as error:
        raise RefusedError(error.message, hint=error.hint) from None
