"""The digests of the parameters of running workloads: one set for each type, made once.

A plain digest of a secret would confirm guesses. So the digests have a key, derived from the root
secret. Equal content has equal digests at all replicas.

A digest contains no value of a single workload. Each part of the workload's own certificate or key
counts as a placeholder, so a renewal changes no digest. Each workload has a different derived key,
but the derived keys change only together. So the digest contains the key derived for one fixed
UUID instead.
"""

import asyncio
import hashlib
import hmac
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from uuid import UUID

import msgspec

from keyhouse.authority import derive_digest_key
from keyhouse.coordinator import Running
from keyhouse.coordinator.activation import Pieces, Present, present
from keyhouse.coordinator.core.context import moment
from keyhouse.coordinator.core.lineages import renewal_of, trusted_roots
from keyhouse.coordinator.core.policy import Recipe
from keyhouse.manifest import Renewal
from keyhouse.server.net.concurrency import BoundedExecutor
from keyhouse.server.services.activation_checks import require_recipe

_SIZE: Final = 16  # bytes
_ANY: Final = UUID(int=2**128 - 1)


class Digests(msgspec.Struct, frozen=True):
    """The digests of the parameters for a marble type, 16 bytes each."""

    files: bytes
    env: bytes
    argv: bytes
    certificate: bytes  # of the marble root in force, and of the rules of the type
    trust: bytes  # of the marble roots that workloads trust


class Inputs(msgspec.Struct, frozen=True):
    """The parts of a state that determine the digests of parameters."""

    state: Running
    roots: tuple[bytes, ...]  # DER: the marble root in force, then former roots

    @classmethod
    def of(cls, state: Running, now: int) -> "Inputs":
        """Return the inputs in ``state`` at ``now`` (microseconds since 1970)."""
        former = (root.certificate for root in trusted_roots(state, now))
        return cls(state, (state.keys.marble_root_cert, *reversed(tuple(former))))

    def equals(self, other: "Inputs") -> bool:
        """Return whether these inputs and ``other`` give equal digests.

        The comparison is by object, so its work does not depend on the size of a state. Most
        events, such as renewals, leave all of these objects in place.
        """
        one, two = self.state, other.state
        return self.roots == other.roots and all(
            getattr(one, name) is getattr(two, name) for name in _NAMES
        )


_NAMES: Final = (
    "manifest",
    "keys",
    "secrets",
    "previous",
    "previous_root_secret",
    "previous_sizes",
)


class DigestCache:
    """The digests of the newest inputs, by marble type.

    ``executor`` renders the parameters that are costly to render.
    """

    def __init__(self, executor: BoundedExecutor) -> None:
        self._executor = executor
        self._inputs: Inputs | None = None
        self._made: dict[str, asyncio.Future[Digests]] = {}

    async def of(self, inputs: Inputs, marble_type: str, now: int) -> Digests:
        """Return the digests of ``marble_type`` for ``inputs``, rendered once for all callers.

        ``now``: microseconds since 1970. Raises ``NotEnabledError``, ``ConflictError`` for a secret
        without a value, and ``UnavailableError``.
        """
        if self._inputs is None or not self._inputs.equals(inputs):
            self._inputs, self._made = inputs, {}
        made = self._made
        found = made.get(marble_type)
        if found is None or found.cancelled():
            found = asyncio.ensure_future(self._make(inputs, marble_type, now))
            made[marble_type] = found
            found.add_done_callback(lambda done: _drop_failed(made, marble_type, done))
        return await asyncio.shield(found)

    async def _make(self, inputs: Inputs, marble_type: str, now: int) -> Digests:
        state = inputs.state
        renewal = renewal_of(state, marble_type)
        recipe = require_recipe(state, marble_type)

        def make() -> Digests:
            made = present(state, recipe, _ANY, moment(now), inputs.roots)
            return _digests(inputs, renewal, recipe, made)

        return await self._executor.run(make, marble_type) if recipe.is_costly else make()


def _drop_failed(
    made: dict[str, "asyncio.Future[Digests]"], name: str, done: "asyncio.Future[Digests]"
) -> None:
    """Remove ``done``, the digests of the type ``name``, from ``made`` if their creation failed.

    Then the next call makes these digests again.
    """
    if (done.cancelled() or done.exception() is not None) and made.get(name) is done:
        del made[name]


def _digests(inputs: Inputs, renewal: Renewal, recipe: Recipe, made: Present) -> Digests:
    keys = inputs.state.keys
    key = derive_digest_key(keys.root_secret).reveal()
    on_change = renewal.on_change
    rules = (
        renewal.valid_minutes.to_bytes(8, "big"),
        on_change.signal.encode(),
        *(each.encode() for each in (*on_change.command, "")),
        str(on_change.restart).encode(),
        renewal.on_end.encode(),
    )
    return Digests(
        files=_digest(key, b"files", _named(made.files)),
        env=_digest(key, b"env", _named(made.env)),
        argv=_digest(key, b"argv", (each.encode() for each in recipe.marble.parameters.argv)),
        certificate=_digest(key, b"certificate", (keys.marble_root_cert, *rules)),
        trust=_digest(key, b"trust", inputs.roots),
    )


def _digest(key: bytes, part: bytes, values: Iterable[bytes]) -> bytes:
    mac = hmac.new(key, part + b"\0", hashlib.sha256)
    for value in values:
        mac.update(len(value).to_bytes(8, "big") + value)
    return mac.digest()[:_SIZE]


def _named(parts: Mapping[str, Pieces]) -> Iterator[bytes]:
    for name in sorted(parts):
        yield name.encode()
        yield len(parts[name]).to_bytes(8, "big")
        for piece in parts[name]:
            yield b"\0" + piece if isinstance(piece, bytes) else b"\1" + str(piece).encode()
