"""Notes between replicas.

Oracle: an accepted note is written as the same bytes. The only permitted exception is
``NoteRefusedError``. A changed give or switch returns no key.

A case has the kind of a note, and a seed for its changes. Notes and keys are new in each process.
"""

import os
from random import Random
from typing import ClassVar, Final, Literal

import msgspec
from fuzz.mutations import mutated
from fuzz.target import FindingError, Target

from keyhouse.authority.instance_keys import InstanceKeys
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.state import Member
from keyhouse.coordinator.engine.shared import Held
from keyhouse.coordinator.hand_off.exchange import key_in, make_ask, make_give
from keyhouse.coordinator.hand_off.key_switch import (
    SwitchReader,
    key_of_switch,
    make_switch,
    signed_switch,
)
from keyhouse.coordinator.hand_off.notes import (
    Ask,
    Give,
    Membership,
    NoteRefusedError,
    Quoted,
    Switch,
    read_quoted,
)
from keyhouse.journal import Position

_STORE: Final = b"s" * 16
_PLACE: Final = Position(3, 77, b"c" * 32)


_Kind = Literal["ask", "give", "switch", "member"]
_KINDS: Final[tuple[_Kind, ...]] = ("ask", "give", "switch", "member")
_QUOTED: Final = ("ask", "member")  # only a quote proves such a note; this target verifies no quote


class _Case(msgspec.Struct, frozen=True, array_like=True):
    kind: _Kind
    seed: int  # seed of the changes


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(_Case)


class NoteTarget(Target):
    """Asks, gives, switches and notes of members, with a few changes."""

    name: ClassVar[str] = "notes"
    about: ClassVar[str] = "notes between replicas, changed"

    def __init__(self) -> None:
        self._dek = Secret(os.urandom(32))
        self._keys, self._writer = InstanceKeys(), InstanceKeys()
        self._reader, writer = _member(self._keys), _member(self._writer)
        self._members = (writer, self._reader)
        ask = make_ask(_STORE, self._reader.instance, self._keys, b"m" * 32, _PLACE)
        held = Held(_STORE, self._dek, _PLACE, b"root", None)
        switch = make_switch(
            self._reader, writer, self._writer, store_id=_STORE, after=_PLACE, dek=self._dek
        )
        if switch is None:
            raise FindingError("no switch could be made")
        member = Membership(
            store_id=_STORE,
            instance=self._reader.instance,
            kem=self._keys.kem,
            signing=self._keys.signing,
            settings=b"m" * 32,
            level=1,
        )
        self._true = {
            "member": Quoted(member.encode(), os.urandom(100)).encode(),
            "ask": Quoted(ask.encode(), os.urandom(100)).encode(),
            "give": make_give(ask.encode(), held, writer.instance, b"m" * 32).encode(),
            "switch": switch.encode(),
        }

    def draw(self, chance: Random) -> bytes:
        """Return a kind of note and a seed."""
        return _encode(_Case(chance.choice(_KINDS), chance.getrandbits(32)))

    def judge(self, case: bytes) -> str:
        """Change the note and read it."""
        given = _decoder.decode(case)
        true = self._true[given.kind]
        raw = mutated(true, Random(given.seed))  # noqa: S311 - repeatable, not secret
        try:
            self._read(given.kind, raw)
        except NoteRefusedError as refused:
            if raw == true:
                raise FindingError("a true note was refused") from None
            return f"refused: {refused.reason}"
        if given.kind not in _QUOTED and raw != true:
            raise FindingError("a changed note returned the key")
        return "read"

    def _read(self, kind: str, raw: bytes) -> None:
        if kind == "ask":
            quoted = read_quoted(raw)
            _same(raw, quoted.encode())
            _same(quoted.message, Ask.read(quoted.message).encode())
        elif kind == "member":
            quoted = read_quoted(raw)
            _same(raw, quoted.encode())
            _same(quoted.message, Membership.read(quoted.message).encode())
        elif kind == "give":
            give = Give.read(raw)
            _same(raw, give.encode())
            key_in(give, self._keys)
        else:
            _same(raw, Switch.read(raw).encode())
            reader = SwitchReader(_STORE, self._reader.instance, _PLACE, self._members)
            key_of_switch(signed_switch(raw, reader)[0], self._keys)


def _same(raw: bytes, again: bytes) -> None:
    if raw != again:
        raise FindingError("an accepted note is written as different bytes")


def _member(keys: InstanceKeys) -> Member:
    return Member(os.urandom(16), keys.signing, keys.kem, b"p" * 16, b"u" * 32)
