"""Handing the data key over through a store that reads, keeps, changes and forges the notes."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.captured_log import capture_logs
from support.cosigner import Cosigner
from support.peers.hand_off import Asker, Giver, left, put, serving
from support.samples.deployment import upload
from support.samples.machines import (
    NOW,
    OTHER_CODE,
    PPIDS,
    SETTINGS,
    machines,
    platform,
    verified,
    vouched,
)
from support.samples.replicas import DEK, STORE_ID
from support.samples.simulated_store import Database, SimulatedStore
from support.samples.simulated_time import until_idle

from keyhouse.attestation import CollateralUnavailableError, TcbStatus, quote_binding, report_data
from keyhouse.authority.instance_keys import InstanceKeys
from keyhouse.base.errors import UnavailableError
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.events import LEVEL, CollateralSeen
from keyhouse.coordinator.engine.records import encode_events
from keyhouse.coordinator.engine.shared import Held
from keyhouse.coordinator.hand_off.exchange import make_give
from keyhouse.coordinator.hand_off.notes import (
    Ask,
    Give,
    NoteProblem,
    NoteRefusedError,
    Quoted,
    read_quoted,
)
from keyhouse.journal import Journal, Position, RolledBackError, WrongKeyError
from keyhouse.journal.store.protocol import Note
from keyhouse.server.services.hand_off import ReceivedKey
from keyhouse_simulation import SimulatedPlatform, make_machine
from keyhouse_simulation.parameters import QuotedEnclave, TcbInfo

ANYBODY: dict[str, Any] = {}
OTHER_ENCLAVE = QuotedEnclave(measurements=OTHER_CODE)


async def answered(asker: Asker, giver: Giver) -> ReceivedKey | None:
    await asker.requester.send_request()
    await giver.answer_requests()
    return await asker.requester.read_answers()


def refusals(entries: list[dict[str, Any]]) -> list[str]:
    """Return why notes were refused, in the words for programs."""
    found = [each for each in entries if each["event"] == "a note was refused"]
    return [str(each["reason"]).split(":")[0] for each in found]


async def test_a_process_on_another_machine_is_given_the_key(tmp_path: Path) -> None:
    async with serving(tmp_path, ANYBODY) as (giver, database):
        await upload(giver.engine, {"key0": b"0" * 16})
        asker = Asker(database)
        taken = await answered(asker, giver)

        assert taken is not None
        assert taken.dek == DEK
        assert taken.give.place == giver.engine.view.position
        assert (await asker.opened(taken)).keys == giver.engine.view.running.keys
        for note in database.notes:
            assert DEK.reveal() not in note.raw
        assert DEK.reveal().hex() not in repr(taken)


async def test_without_the_section_nobody_is_given_anything(tmp_path: Path) -> None:
    async with serving(tmp_path, None) as (giver, database):
        with capture_logs() as entries:
            assert await answered(Asker(database), giver) is None
        assert refusals(entries) == ["not-configured"]
        assert [note.kind for note in database.notes if note.kind != "member"] == ["ask"]


async def test_nobody_is_given_a_state_that_witnesses_do_not_know(tmp_path: Path) -> None:
    policy = f"witness W {Cosigner.ed25519().verifier} https://w.example\nquorum W\n"
    rules = {"Witnesses": policy, "Serve": "Witnessed", "LeaseOperations": 2}
    async with serving(tmp_path, ANYBODY, Transparency=rules) as (giver, database):
        asker, lease = Asker(database), giver.engine.lease
        with capture_logs() as entries:
            assert await answered(asker, giver) is None
            assert await answered(asker, giver) is None
        told = [each["reason"] for each in entries if "hands no data key over" in each["event"]]
        [reason] = told
        assert "the start" in str(reason)
        log = giver.engine.view.running.public_log
        assert log is not None
        lease.on_quorum(log.frontier.size, b"a checkpoint")
        assert await answered(asker, giver) is not None
        assert await answered(Asker(database), giver) is not None
        with capture_logs():  # each one was an operation, and the lease is used up
            assert await answered(Asker(database), giver) is None


OUT_OF_DATE = TcbInfo(status=TcbStatus.OUT_OF_DATE)
HARDENING = TcbInfo(status=TcbStatus.SW_HARDENING_NEEDED, advisories=("INTEL-SA-1",))
LISTED = {"Code": [{"UniqueID": OTHER_CODE.unique_id.hex()}]}
SAME_SIGNER = {"SignerID": OTHER_CODE.signer_id.hex(), "ProductID": 0x5111}


@pytest.mark.parametrize(
    ("replicas", "enclave", "info", "reason"),
    [
        (ANYBODY, OTHER_ENCLAVE, None, "code"),
        (LISTED, OTHER_ENCLAVE, None, ""),
        (LISTED, QuotedEnclave(), None, "code"),
        ({"Code": [{**SAME_SIGNER, "SecurityVersion": 1}]}, OTHER_ENCLAVE, None, ""),
        ({"Code": [{**SAME_SIGNER, "SecurityVersion": 2}]}, OTHER_ENCLAVE, None, "code"),
        ({"Platforms": [PPIDS[1].hex()]}, QuotedEnclave(), None, ""),
        ({"Platforms": [PPIDS[0].hex()]}, QuotedEnclave(), None, "platform"),
        (ANYBODY, QuotedEnclave(), OUT_OF_DATE, "tcb-status"),
        ({"AcceptedTCBStatuses": ["OutOfDate"]}, QuotedEnclave(), OUT_OF_DATE, ""),
        (ANYBODY, QuotedEnclave(), HARDENING, "tcb-status"),
        ({"AcceptedTCBStatuses": ["SWHardeningNeeded"]}, QuotedEnclave(), HARDENING, ""),
        (ANYBODY, QuotedEnclave(debug=True), None, "debug"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
async def test_who_is_given_the_key_is_said_by_the_manifest(
    tmp_path: Path, replicas: object, enclave: QuotedEnclave, info: TcbInfo | None, reason: str
) -> None:
    """The asker runs ``enclave``; its vendor says ``info`` of it."""
    on = platform(1, enclave)
    used = None if info is None else platform(1, enclave, info).collateral
    async with serving(tmp_path, replicas, used) as (giver, database):
        with capture_logs() as entries:
            taken = await answered(Asker(database, on, used=used), giver)
        assert (taken is None) is bool(reason)
        assert refusals(entries) == ([reason] if reason else [])


Change = Callable[[Database, Asker], None]


def _on_ask(change: Callable[[Quoted, Ask], bytes]) -> Change:
    def apply(database: Database, _asker: Asker) -> None:
        note = left(database, "ask")
        quoted = read_quoted(note.raw)
        changed = change(quoted, Ask.read(quoted.message))
        put(database, msgspec.structs.replace(note, raw=changed))

    return apply


def _with(**fields: object) -> Callable[[Quoted, Ask], bytes]:
    """Return the ask with other fields, and the quote that it had."""

    def change(quoted: Quoted, ask: Ask) -> bytes:
        return Quoted(msgspec.structs.replace(ask, **fields).encode(), quoted.quote).encode()

    return change


def _quoted_by(
    on: Callable[[], SimulatedPlatform], data: Callable[[bytes], bytes]
) -> Callable[[Quoted, Ask], bytes]:
    def change(quoted: Quoted, _ask: Ask) -> bytes:
        return Quoted(quoted.message, on().quote(data(quoted.message))).encode()

    return change


def _strange() -> SimulatedPlatform:
    """Return a machine of another vendor, such as a simulated one beside hardware."""
    return SimulatedPlatform(make_machine(NOW), now=lambda: NOW)


KEYS = InstanceKeys()
ASKS: dict[str, tuple[Change, str]] = {
    "the key to seal to is swapped": (_on_ask(_with(kem=KEYS.kem)), "binding"),
    "the key of signatures is swapped": (_on_ask(_with(signing=KEYS.signing)), "binding"),
    "the instance is another": (_on_ask(_with(instance=b"o" * 16)), "binding"),
    "the nonce is another": (_on_ask(_with(nonce=b"o" * 32)), "binding"),
    "the version is another": (_on_ask(_with(version="9.9.9")), "binding"),
    "a place is put in": (_on_ask(_with(known=Position(1, 1, b"c" * 32))), "binding"),
    "a higher level": (_on_ask(_with(level=LEVEL + 1)), "binding"),
    "a level that is too low": (_on_ask(_with(level=0)), "level"),
    "another store": (_on_ask(_with(store_id=b"o" * 16)), "other-store"),
    "other settings": (_on_ask(_with(settings=b"o" * 32)), "other-settings"),
    "a normal quote over the root": (
        _on_ask(_quoted_by(platform, lambda message: report_data(quote_binding(message)))),
        "binding",
    ),
    "the quote of a give": (
        _on_ask(lambda quoted, _: vouched(platform(1), "give", quoted.message)),
        "binding",
    ),
    "no quote": (_on_ask(lambda quoted, _: Quoted(quoted.message, b"").encode()), "quote"),
    "a quote that is cut": (
        _on_ask(lambda quoted, _: Quoted(quoted.message, quoted.quote[:-1]).encode()),
        "quote",
    ),
    "a simulated quote beside hardware": (
        _on_ask(lambda quoted, _: vouched(_strange(), "ask", quoted.message)),
        "certificate-chain",
    ),
    "garbage": (_on_ask(lambda quoted, _: quoted.message[::-1]), "malformed"),
    "an empty note": (_on_ask(lambda _, __: b""), "malformed"),
}


@pytest.mark.parametrize(("change", "reason"), ASKS.values(), ids=ASKS)
async def test_an_ask_that_was_changed_is_refused_by_name(
    tmp_path: Path, change: Change, reason: str
) -> None:
    async with serving(tmp_path, ANYBODY) as (giver, database):
        asker = Asker(database)
        await asker.requester.send_request()
        change(database, asker)
        with capture_logs() as entries:
            await giver.answer_requests()
        assert refusals(entries) == [reason]
        assert [note.kind for note in database.notes if note.kind != "member"] == ["ask"]


async def test_a_process_with_other_settings_is_given_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path, ANYBODY) as (giver, database):
        with capture_logs() as entries:
            assert await answered(Asker(database, settings=b"o" * 32), giver) is None
        assert refusals(entries) == ["other-settings"]


async def test_an_ask_that_is_played_back_is_not_answered_again(tmp_path: Path) -> None:
    async with serving(tmp_path, ANYBODY) as (giver, database):
        asker = Asker(database)
        assert await answered(asker, giver) is not None
        old = left(database, "ask")
        database.notes.clear()
        put(database, old)
        await giver.answer_requests()
        assert [note.kind for note in database.notes if note.kind != "member"] == ["ask"]

        again = read_quoted(old.raw).message
        put(database, msgspec.structs.replace(old, raw=vouched(platform(1), "ask", again)))
        with capture_logs() as entries:
            await giver.answer_requests()
        assert refusals(entries) == ["answered-before"]
        assert [note.kind for note in database.notes if note.kind != "member"] == ["ask"]


def _on_give(change: Callable[[Quoted, Give], bytes]) -> Change:
    def apply(database: Database, _asker: Asker) -> None:
        note = left(database, "give")
        quoted = read_quoted(note.raw)
        changed = change(quoted, Give.read(quoted.message))
        put(database, msgspec.structs.replace(note, raw=changed))

    return apply


def _give_with(**fields: object) -> Callable[[Quoted, Give], bytes]:
    def change(quoted: Quoted, give: Give) -> bytes:
        return Quoted(msgspec.structs.replace(give, **fields).encode(), quoted.quote).encode()

    return change


def _true_give_with(**fields: object) -> Callable[[Quoted, Give], bytes]:
    """Return the give with other fields, which true code vouches for."""

    def change(_quoted: Quoted, give: Give) -> bytes:
        return vouched(platform(0), "give", msgspec.structs.replace(give, **fields).encode())

    return change


FIRST = Position(1, 1, b"c" * 32)
GIVES: dict[str, tuple[Change, str]] = {
    "another ask": (_on_give(_give_with(ask=b"o" * 32)), "other-ask"),
    "another store": (_on_give(_give_with(store_id=b"o" * 16)), "other-store"),
    "another giver": (_on_give(_give_with(giver=b"o" * 16)), "binding"),
    "another root": (_on_give(_give_with(root=b"o" * 32)), "binding"),
    "another place": (_on_give(_give_with(place=FIRST)), "binding"),
    "another sealed key": (_on_give(_give_with(sealed=b"o" * 1168)), "binding"),
    "the sealed key of another ask": (
        _on_give(_true_give_with(sealed=b"o" * 1168)),
        "sealed-for-another",
    ),
    "the place is not what was sealed": (
        _on_give(_true_give_with(place=FIRST)),
        "sealed-for-another",
    ),
    "the quote of the ask": (
        lambda database, _: put(
            database,
            msgspec.structs.replace(
                left(database, "give"),
                raw=Quoted(
                    read_quoted(left(database, "give").raw).message,
                    read_quoted(left(database, "ask").raw).quote,
                ).encode(),
            ),
        ),
        "binding",
    ),
    "the quote of an ask over it": (
        _on_give(lambda quoted, _: vouched(platform(0), "ask", quoted.message)),
        "binding",
    ),
    "a normal quote": (
        _on_give(
            lambda quoted, _: Quoted(
                quoted.message, platform(0).quote(report_data(quote_binding(quoted.message)))
            ).encode()
        ),
        "binding",
    ),
    "a simulated quote beside hardware": (
        _on_give(lambda quoted, _: vouched(_strange(), "give", quoted.message)),
        "certificate-chain",
    ),
    "a debug enclave": (
        _on_give(
            lambda quoted, _: vouched(
                platform(0, QuotedEnclave(debug=True)), "give", quoted.message
            )
        ),
        "debug",
    ),
    "garbage": (_on_give(lambda quoted, _: quoted.message[::-1]), "malformed"),
    "the ask": (
        lambda database, asker: put(
            database, Note("give", asker.instance, left(database, "ask").raw)
        ),
        "malformed",
    ),
}


@pytest.mark.parametrize(("change", "reason"), GIVES.values(), ids=GIVES)
async def test_an_answer_that_was_changed_is_refused_by_name(
    tmp_path: Path, change: Change, reason: str
) -> None:
    async with serving(tmp_path, ANYBODY) as (giver, database):
        asker = Asker(database)
        await asker.requester.send_request()
        await giver.answer_requests()
        change(database, asker)
        with capture_logs() as entries:
            assert await asker.requester.read_answers() is None
        assert refusals(entries) == [reason]


async def test_an_answer_that_is_played_back_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, ANYBODY) as (giver, database):
        asker = Asker(database)
        await asker.requester.send_request()
        await giver.answer_requests()
        old = left(database, "give")
        await asker.requester.send_request()
        with capture_logs() as entries:
            assert await asker.requester.read_answers() is None
        assert refusals(entries) == ["other-ask"]
        await giver.answer_requests()
        assert left(database, "give") != old
        assert await asker.requester.read_answers() is not None


async def test_the_answer_to_another_process_is_not_looked_at(tmp_path: Path) -> None:
    async with serving(tmp_path, ANYBODY) as (giver, database):
        first, second = Asker(database), Asker(database)
        await first.requester.send_request()
        await second.requester.send_request()
        await giver.answer_requests()
        gives = {note.name: note for note in database.notes if note.kind == "give"}
        assert gives.keys() == {first.instance, second.instance}
        put(database, msgspec.structs.replace(gives[first.instance], name=second.instance))
        with capture_logs() as entries:
            assert await second.requester.read_answers() is None
        assert refusals(entries) == ["other-ask"]
        assert await first.requester.read_answers() is not None


# --- what comes to light only when the journal is open ---


async def test_a_giver_whose_code_the_opened_manifest_does_not_admit_is_refused(
    tmp_path: Path,
) -> None:
    """It has a true quote and a key that opens a journal: a made-up one, with the true manifest."""
    async with serving(tmp_path, ANYBODY) as (made_up, forged):
        asker = Asker(forged)
        await asker.requester.send_request()
        _forge(forged, made_up, asker, platform(0, OTHER_ENCLAVE))
        taken = await asker.requester.read_answers()
        assert taken is not None
        with pytest.raises(NoteRefusedError) as refused:
            await asker.opened(taken)
        assert refused.value.reason is NoteProblem.CODE


def _forge(
    database: Database, giver: Giver, asker: Asker, on: SimulatedPlatform, **held: object
) -> None:
    """Answer the ask as ``on`` would that holds what ``giver`` does, but ``held``."""
    true = giver.engine.held
    assert true is not None
    ask = read_quoted(left(database, "ask").raw).message
    give = make_give(ask, msgspec.structs.replace(true, **held), b"g" * 16, SETTINGS)
    put(database, Note("give", asker.instance, vouched(on, "give", give.encode())))


async def test_a_journal_with_another_root_than_was_told_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, ANYBODY) as (giver, database):
        asker = Asker(database)
        await asker.requester.send_request()
        _forge(database, giver, asker, platform(0), root_cert=b"other")
        taken = await asker.requester.read_answers()
        assert taken is not None
        with pytest.raises(NoteRefusedError) as refused:
            await asker.opened(taken)
        assert refused.value.reason is NoteProblem.ROOT


async def test_a_key_that_is_not_that_of_the_journal_opens_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path, ANYBODY) as (giver, database):
        asker = Asker(database)
        await asker.requester.send_request()
        _forge(database, giver, asker, platform(0), dek=Secret(b"x" * 32))
        taken = await asker.requester.read_answers()
        assert taken is not None
        with pytest.raises(WrongKeyError):
            await asker.opened(taken)


async def test_a_journal_that_ends_before_the_giver_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, ANYBODY) as (giver, database):
        asker = Asker(database)
        await upload(giver.engine, {"key0": b"0" * 16})
        taken = await answered(asker, giver)
        assert taken is not None
        database.lose_tail(1)
        with pytest.raises(RolledBackError):
            await asker.opened(taken)


async def test_a_giver_judged_by_collateral_older_than_the_journal_knows_is_refused(
    tmp_path: Path,
) -> None:
    """A host shows a joining process old collateral, by which an outdated giver is sound."""
    async with serving(tmp_path, ANYBODY) as (giver, database):
        asker = Asker(database)
        taken = await answered(asker, giver)
        assert taken is not None
        assert taken.marks
        journal, _ = await Journal.open(SimulatedStore(database), store_id=STORE_ID, dek=DEK)
        await journal.append(list(encode_events([CollateralSeen(time=1, marks=taken.marks)])))
        assert (await asker.opened(taken)).keys == giver.engine.view.running.keys
        for name, mark in taken.marks.items():
            newer = {name: msgspec.structs.replace(mark, number=mark.number + 1)}
            await journal.append(list(encode_events([CollateralSeen(time=1, marks=newer)])))
            with pytest.raises(CollateralUnavailableError, match="older than"):
                await asker.opened(taken)


# --- who is behind ---


async def test_who_is_behind_an_asker_gives_nothing_any_more(tmp_path: Path) -> None:
    async with serving(tmp_path, ANYBODY) as (giver, database):
        position = giver.engine.view.position
        assert position is not None
        ahead = Position(position.epoch, position.sequence + 1, b"c" * 32)
        asker = Asker(database, known=ahead)
        assert await answered(asker, giver) is None
        assert not giver.is_behind()  # it may not have caught up yet
        await until_idle()
        await giver.answer_requests()
        assert giver.is_behind()
        assert "ends at 1." in str(giver.giver.behind)
        assert await answered(Asker(database), giver) is None


async def test_another_history_at_the_same_number_is_noticed(tmp_path: Path) -> None:
    async with serving(tmp_path, ANYBODY) as (giver, database):
        position = giver.engine.view.position
        assert position is not None
        fork = msgspec.structs.replace(position, chain=b"c" * 32)
        await answered(Asker(database, known=fork), giver)
        await giver.answer_requests()
        assert giver.is_behind()


async def test_only_who_may_have_the_key_can_say_that_a_giver_is_behind(tmp_path: Path) -> None:
    async with serving(tmp_path, ANYBODY) as (giver, database):
        strange = Asker(database, platform(1, OTHER_ENCLAVE), known=Position(9, 9, b"c" * 32))
        for _ in range(3):
            assert await answered(strange, giver) is None
        assert not giver.is_behind()
        assert await answered(Asker(database), giver) is not None


async def test_a_giver_that_was_behind_for_a_moment_gives(tmp_path: Path) -> None:
    async with serving(tmp_path, ANYBODY) as (giver, database):
        position = giver.engine.view.position
        assert position is not None
        store = SimulatedStore(database)
        other, _ = await Journal.open(store, store_id=STORE_ID, dek=DEK)
        giver.store.deaf = True
        place = await other.append(list(encode_events([CollateralSeen(time=1, marks={})])))
        asker = Asker(database, known=place)
        assert await answered(asker, giver) is None
        await until_idle()
        await giver.answer_requests()
        assert await asker.requester.read_answers() is not None


async def test_a_giver_that_has_seen_less_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, ANYBODY) as (giver, database):
        asker = Asker(database, known=Position(2, 1, b"c" * 32))
        await asker.requester.send_request()
        _forge(database, giver, asker, platform(0))
        with capture_logs() as entries:
            assert await asker.requester.read_answers() is None
        assert refusals(entries) == ["behind"]


# --- floods and outages ---


async def test_a_true_ask_is_answered_among_ten_thousand_others(tmp_path: Path) -> None:
    async with serving(tmp_path, ANYBODY) as (giver, database):
        asker = Asker(database)
        await asker.requester.send_request()
        true = left(database, "ask")
        quoted = read_quoted(true.raw)
        forged = [
            Quoted(quoted.message, os.urandom(200) + quoted.quote).encode(),
            Quoted(os.urandom(1500), quoted.quote).encode(),
            true.raw[:-1],
        ]
        garbage = [
            Note("ask", number.to_bytes(16, "big"), forged[number % 3] + number.to_bytes(4, "big"))
            for number in range(10_000)
        ]
        database.notes = [*garbage[:5_000], true, *garbage[5_000:]]
        with capture_logs() as entries:
            await giver.answer_requests()
        assert await asker.requester.read_answers() is not None
        assert len(refusals(entries)) == 8
        assert entries[-1]["number"] == 9_992
        with capture_logs() as entries:
            await giver.answer_requests()
        assert refusals(entries) == []


async def test_a_store_that_does_not_answer_is_asked_again(tmp_path: Path) -> None:
    async with serving(tmp_path, ANYBODY) as (giver, database):
        asker = Asker(database)
        asker.store.down = giver.store.down = True
        assert await asker.requester.read_answers() is None  # nothing was asked yet
        for call in (
            asker.requester.send_request,
            giver.answer_requests,
            asker.requester.read_answers,
        ):
            with pytest.raises(UnavailableError):
                await call()
        asker.store.down = giver.store.down = False
        assert await answered(asker, giver) is not None


async def test_what_was_given_is_never_shown(tmp_path: Path) -> None:
    async with serving(tmp_path, ANYBODY) as (giver, database):
        held = giver.engine.held
        assert isinstance(held, Held)
        assert DEK.reveal().hex() not in repr(held)
        assert str(DEK.reveal()) not in repr(held)
        with capture_logs() as entries:
            assert await answered(Asker(database), giver) is not None
        assert str(DEK.reveal())[2:-1] not in str(entries)
        assert "another coordinator" in str(entries)


def test_the_two_machines_are_two() -> None:
    one, other = (verified(platform(which).quote(bytes(64))) for which in (0, 1))
    assert (one.ppid, other.ppid) == PPIDS
    assert machines()[0].sealing_root != machines()[1].sealing_root
