"""Create and check the messages of a hand-off, and seal the data key for the asker.

A replica without the data key (the asker) requests the key by an ask. A replica with the data key
(the giver) sends the key in a give.
"""

import hashlib
import os

import msgspec

from keyhouse.attestation.origin.rule import OriginRule
from keyhouse.authority import instance_keys
from keyhouse.base.errors import KeyhouseError
from keyhouse.base.secret import Secret
from keyhouse.base.version import VERSION
from keyhouse.coordinator.core.events import LEVEL
from keyhouse.coordinator.engine.shared import Held
from keyhouse.coordinator.hand_off.notes import (
    NONCE_SIZE,
    AnyGive,
    Ask,
    Give,
    GiveLine,
    NoteProblem,
    NoteRefusedError,
    digest_of,
)
from keyhouse.journal import LineMark, Position, Vouched


class BehindError(KeyhouseError):
    """Another process has seen more of the journal: the store shows an old view to this process."""

    code = "behind"


def make_ask(
    store_id: bytes,
    instance: bytes,
    keys: instance_keys.InstanceKeys,
    settings: bytes,
    known: Position | None,
) -> Ask:
    """Return a new ask: the request for the data key of the store ``store_id``.

    ``instance`` and ``keys``: the id and the keys of this process. ``settings``: the SHA-256 of its
    measured settings. ``known``: the highest place of the journal seen by this machine; None: no
    place.
    """
    return Ask(
        store_id=store_id,
        instance=instance,
        nonce=os.urandom(NONCE_SIZE),
        kem=keys.kem,
        signing=keys.signing,
        settings=settings,
        known=known,
        level=LEVEL,
        version=VERSION,
    )


def require_answerable(ask: Ask, held: Held, settings: bytes) -> None:
    """Raise ``NoteRefusedError`` for a wrong store, wrong settings or a low event level in ``ask``.

    These checks need no quote. ``held``: the data key of this process, with its store and event
    level. ``settings``: the SHA-256 of the measured settings of this process.
    """
    if ask.store_id != held.store_id:
        raise NoteRefusedError(
            NoteProblem.OTHER_STORE, "the note of the other coordinator is for another store"
        )
    if ask.settings != settings:
        raise NoteRefusedError(
            NoteProblem.OTHER_SETTINGS,
            "the sender of the note has other measured settings than this coordinator",
            hint="start all coordinators of a store with the same measured settings",
        )
    if ask.level < held.level:
        raise NoteRefusedError(
            NoteProblem.LEVEL,
            f"the other coordinator reads events up to level {ask.level}; the journal may have"
            f" level {held.level}",
            hint="start a newer version of Keyhouse as the other coordinator",
        )


def require_not_ahead(known: Position | None, place: Position) -> None:
    """Raise ``BehindError`` if the asker has seen a later or a different journal.

    ``known``: the highest place of the journal seen by the asker; None: no place. ``place``: the
    end of the journal of this process. A ``known`` before ``place`` is not checked here. The asker
    itself notices if such a place is not in the journal.
    """
    if known is None:
        return
    ahead = (known.epoch, known.sequence) > (place.epoch, place.sequence)
    same_number = (known.epoch, known.sequence) == (place.epoch, place.sequence)
    if ahead or (same_number and known.chain != place.chain):
        raise BehindError(
            f"another coordinator has seen the journal at {known.epoch}.{known.sequence}; the store"
            f" of this coordinator ends at {place.epoch}.{place.sequence}, or has another history",
            hint="find out which copy of the database is the newest; then restart this coordinator,"
            " which sends no data key until then",
        )


def require_not_older(place: Position, known: Position | None) -> None:
    """Raise ``NoteRefusedError`` if the giver has seen less of the journal than this machine.

    ``place``: the last place seen by the giver. ``known``: the highest place seen by this machine;
    None: no place.
    """
    if known is not None and (place.epoch, place.sequence) < (known.epoch, known.sequence):
        raise NoteRefusedError(
            NoteProblem.BEHIND,
            "the other coordinator has seen less of the journal than this machine",
        )


def make_give(message: bytes, held: Held, giver: bytes, settings: bytes) -> AnyGive:
    """Return the answer to the ask in ``message``, whose quote was accepted.

    ``held``: the data key and its place. ``giver``: the instance of this process. ``settings``: the
    SHA-256 of its measured settings. Raises ``NoteRefusedError`` if nothing can be sealed to the
    key of the ask.
    """
    give: AnyGive = Give(
        ask=digest_of(message),
        store_id=held.store_id,
        giver=giver,
        root=hashlib.sha256(held.root_cert).digest(),
        place=held.place,
        sealed=b"",
    )
    if (line := held.line) is not None:
        give = GiveLine(
            **msgspec.structs.asdict(give),
            settings=settings,
            rule=line.rule,
            entries=line.entries,
            last=line.last,
        )
    try:
        sealed = instance_keys.seal_for(Ask.read(message).kem, held.dek, give.info)
    except instance_keys.UnusableKeyError as refused:
        raise NoteRefusedError(NoteProblem.KEY, refused.message) from None
    return msgspec.structs.replace(give, sealed=sealed)


def vouched_by(give: AnyGive, settings: bytes, rule: OriginRule) -> Vouched | None:
    """Return the line in ``give`` if the giver proves lines by the rules of this process.

    None: the give has no line, or the giver has different settings or rules. ``settings`` and
    ``rule`` belong to this process. Another check decides whether the code of the giver is
    accepted.
    """
    if not isinstance(give, GiveLine):
        return None
    if (give.settings, give.rule) != (settings, rule.digest):
        return None
    return Vouched(LineMark(give.root, give.entries, give.last, give.rule), give.place, is_own=True)


def require_answers(give: AnyGive, message: bytes, ask: Ask) -> None:
    """Raise ``NoteRefusedError`` unless ``give`` answers ``ask``, encoded in ``message``."""
    if give.ask != digest_of(message):
        raise NoteRefusedError(
            NoteProblem.OTHER_ASK, "the note answers another request for the data key"
        )
    if give.store_id != ask.store_id:
        raise NoteRefusedError(
            NoteProblem.OTHER_STORE, "the note of the other coordinator is for another store"
        )


def key_in(give: AnyGive, keys: instance_keys.InstanceKeys) -> Secret:
    """Return the data key in ``give``, unsealed with the private ``keys``.

    Nothing about the data key is proven yet. Raises ``NoteRefusedError``.
    """
    try:
        return keys.unseal(give.sealed, give.info)
    except instance_keys.SealedForAnotherError as refused:
        raise NoteRefusedError(NoteProblem.SEALED_FOR_ANOTHER, refused.message) from None


def require_root(give: AnyGive, root_cert: bytes) -> None:
    """Raise ``NoteRefusedError`` unless ``give`` names the root of the opened journal.

    ``root_cert``: the root certificate in the journal, DER.
    """
    if give.root != hashlib.sha256(root_cert).digest():
        raise NoteRefusedError(
            NoteProblem.ROOT,
            "the note with the data key states another root certificate than the journal",
        )
