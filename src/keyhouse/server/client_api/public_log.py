"""Serves the transparency log in the form of C2SP logs, and the key of the log."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from keyhouse.base.errors import BadRequestError, KeyhouseError, NotFoundError
from keyhouse.coordinator import Engine, PublicLog as PublicLogState, View, signed_checkpoint
from keyhouse.coordinator.core.state import LineItem
from keyhouse.server.client_api.answers import Answers
from keyhouse.server.client_api.nonces import nonce_in
from keyhouse.server.http.exchange import Admission, Answer, Head
from keyhouse.server.http.query import short_values
from keyhouse.server.services.quotes import Quotes
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.line import hash_of
from keyhouse.transparency.note import SignedNote
from keyhouse.transparency.tiles import Tile
from keyhouse.wire.client_api import LineData, LineEntryData, LogKeyData, LogQuoteData

TILE: Final = "/api/v2/log/tile/"
OBJECT: Final = "/api/v2/log/object/"

SHORTEST_NONCE: Final = 16
"""Bytes of the nonce of a quote over a checkpoint or over the line."""

AT_ONCE: Final = 8
"""Largest number of simultaneous reads of tiles and objects from the disk."""

KEPT: Final = 32 * 1024 * 1024
"""Bytes of stored tiles and objects. Many slow readers of a tile then hold its bytes once."""

_Part = tuple[str, Tile | str]
"""The key of a log, and a tile or the name of an object."""

_TEXT: Final = (b"content-type", b"text/plain; charset=utf-8")
_BYTES: Final = (
    (b"content-type", b"application/octet-stream"),
    (b"cache-control", b"public, max-age=31536000, immutable"),
)


class PublicLogHandlers:
    """The handlers for the transparency log of ``engine``, and for the line of the root."""

    def __init__(self, engine: Engine, answers: Answers, quotes: Quotes) -> None:
        self._engine: Final = engine
        self._quotes: Final = quotes
        self._answers: Final = answers
        self._reading: Final = asyncio.Semaphore(AT_ONCE)
        self._signed: tuple[PublicLogState | None, bytes] = None, b""
        # The size of the largest served checkpoint.
        self._largest = 0
        self._kept: dict[_Part, bytes] = {}
        # Bytes of the stored parts.
        self._size = 0

    def checkpoint(self, view: View, head: Head) -> Answer:
        """Return the newest checkpoint with a quorum of cosignatures, or of the whole log.

        The checkpoint of the whole log replaces a missing cosigned checkpoint. It also replaces a
        cosigned checkpoint that is smaller than the checkpoint in an earlier answer. So the size of
        the log in answers never decreases.

        With ``newest`` in the query, the answer is always the checkpoint of the whole log. With
        this checkpoint, a client verifies that the log continues a head from an earlier answer.
        Raises ``BadRequestError``.
        """
        note = self._checkpoint(view, newest=_wants_newest(head.query))
        return Answer(200, note, (*self._answers.headers(view), _TEXT))

    def quote(self, view: View, head: Head) -> Admission:
        """Return the checkpoint with a quote over the checkpoint and the caller's nonce.

        The quote is new for each call. Raises ``BadRequestError`` for a nonce that is too short to
        be unique.
        """
        nonce, note = _required_nonce(head, "the log"), self._checkpoint(view, newest=False)

        async def fresh(body: bytes) -> Answer:
            del body
            try:
                text = SignedNote.read(note).text
                quote = await self._quotes.of_head(view.state.keys.root_cert, nonce, text)
            except KeyhouseError as problem:
                return self._answers.refused(problem, head)
            return self._answers.success(LogQuoteData(note.decode(), quote), view)

        return Admission(0, fresh)

    def line(self, view: View, head: Head) -> Admission:
        """Return the line of the root, with a quote over its last entry and the caller's nonce.

        Raises ``BadRequestError`` for a nonce that is too short to be unique, and ``NotFoundError``
        before the line begins.
        """
        nonce, state = _required_nonce(head, "the line"), view.running
        if not state.line:
            raise NotFoundError(
                "the line of this root has not begun yet",
                hint="update each coordinator of an older version that shares the database",
            )
        note = b"" if state.public_log is None else self._checkpoint(view, newest=False)

        async def fresh(body: bytes) -> Answer:
            del body
            try:
                text = SignedNote.read(note).text if note else b""
                last = hash_of(state.line[-1].entry)
                quote = await self._quotes.of_line(state.keys.root_cert, nonce, last, text)
            except KeyhouseError as problem:
                return self._answers.refused(problem, head)
            return self._answers.success(LineData(_entries(state.line), note.decode(), quote), view)

        return Admission(0, fresh)

    def _checkpoint(self, view: View, *, newest: bool) -> bytes:
        log, lease = _log_of(view), self._engine.lease
        if log is not self._signed[0]:
            self._signed = log, signed_checkpoint(log)
        if newest:
            note = self._signed[1]
        elif lease.checkpoint and lease.witnessed >= self._largest:
            self._largest, note = lease.witnessed, lease.checkpoint
        else:
            self._largest, note = log.frontier.size, self._signed[1]
        return note

    def key(self, view: View, head: Head) -> Answer:
        """Return the public key of the log, with the signature of the root key over this key."""
        del head
        log = _log_of(view)
        return self._answers.success(LogKeyData(log.origin, log.verifier, log.signature), view)

    def tile(self, view: View, head: Head) -> Answer | Admission:
        """Return a tile of hashes or a tile of leaves, never beyond the end of the log."""
        try:
            tile = Tile.read(head.path.removeprefix(TILE))
        except LogInvalidError:
            tile = None
        if tile is None or not tile.is_in(_log_of(view).frontier.size):
            raise NotFoundError(
                "the log has no tile with this path",
                hint="request tiles of the log up to the size in its checkpoint",
            )
        held = self._engine.writer.public_log.held(tile)
        if held is not None:
            return self._immutable(held, view)
        return self._read(view, head, tile, lambda: self._engine.writer.public_log.tile(tile))

    def object(self, view: View, head: Head) -> Answer | Admission:
        """Return the object with the name in the path, such as a manifest.

        An object is named by its SHA-256, and leaves contain these names.
        """
        name = head.path.removeprefix(OBJECT)
        return self._read(view, head, name, lambda: self._engine.writer.public_log.object(name))

    def _read(
        self, view: View, head: Head, part: Tile | str, read: Callable[[], Awaitable[bytes]]
    ) -> Answer | Admission:
        # Another deployment may replace this deployment.
        log = _log_of(view).verifier
        kept = self._kept.pop((log, part), None)
        if kept is not None:
            # The newest entry is the last.
            self._kept[log, part] = kept
            return self._immutable(kept, view)

        async def answered(body: bytes) -> Answer:
            del body
            try:
                return self._immutable(await self._part((log, part), read), view)
            except KeyhouseError as problem:
                return self._answers.refused(problem, head)

        return Admission(0, answered)

    async def _part(self, part: _Part, read: Callable[[], Awaitable[bytes]]) -> bytes:
        """Return ``part`` of the log, stored or read by ``read``.

        Simultaneous requests for a part share the same bytes.
        """
        async with self._reading:
            found = self._kept.pop(part, None)
            if found is None:
                raw = await read()
                # A simultaneous request may have read the part.
                found = self._kept.pop(part, None)
                if found is None:
                    found, self._size = raw, self._size + len(raw)
            # The newest entry is the last.
            self._kept[part] = found
            while self._size > KEPT and len(self._kept) > 1:
                self._size -= len(self._kept.pop(next(iter(self._kept))))
            return found

    def _immutable(self, raw: bytes, view: View) -> Answer:
        return Answer(200, raw, (*self._answers.headers(view), *_BYTES))


def _required_nonce(head: Head, what: str) -> bytes:
    nonce = nonce_in(head.query)
    if len(nonce) < SHORTEST_NONCE:
        raise BadRequestError(
            f"a quote of {what} needs a nonce of at least {SHORTEST_NONCE} bytes",
            fields={"nonce": f"must have at least {SHORTEST_NONCE} bytes"},
            hint="send 32 random bytes as the parameter nonce, in base64 of the URL alphabet",
        )
    return nonce


def _entries(line: Sequence[LineItem]) -> tuple[LineEntryData, ...]:
    return tuple(LineEntryData(item.entry, item.quote, item.collateral) for item in line)


def _wants_newest(query: bytes) -> bool:
    given = short_values(query, "newest") if query else []
    if given not in ([], ["true"], ["false"]):
        raise BadRequestError(
            "the parameter newest must be true or false, once",
            fields={"newest": "must be true or false, once"},
            hint="send newest=true, or leave the parameter out",
        )
    return given == ["true"]


def _log_of(view: View) -> PublicLogState:
    log = view.running.public_log
    if log is None:
        raise NotFoundError(
            "this deployment has no transparency log yet",
            hint="restart the coordinator: its start begins the log",
        )
    return log
