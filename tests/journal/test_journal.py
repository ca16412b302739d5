"""The journal over a store: chained records, compared heads, settled outcomes."""

import hashlib
from collections.abc import Callable, Iterable, Sequence

import msgspec
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV
from hypothesis import given, settings, strategies as st
from support.samples.state import DEK, OTHER_DEK, STORE_ID, put_back

from keyhouse.base.errors import KeyhouseError, TooLargeError
from keyhouse.journal import (
    Continuation,
    Journal,
    MemoryStore,
    NotDurableError,
    OutcomeUnknownError,
    Replay,
    RolledBackError,
    StoreConflictError,
    StoreDamagedError,
    StoreUnreadableError,
    WrongKeyError,
)
from keyhouse.journal.chain import (
    MAX_PAYLOAD,
    NONCE_SIZE,
    PayloadKind,
    Replayer,
    Sealer,
    index_mac_key,
    key_check,
    record_key,
)
from keyhouse.journal.epoch_reader import StoreEmptyError
from keyhouse.journal.journal import _LIGHTEST_BASE
from keyhouse.journal.store.protocol import (
    NOTHING,
    Batch,
    Beside,
    EpochStart,
    Position,
    Sealed,
    StoreFullError,
    StoreNewerError,
    first_link,
)


async def new(store: MemoryStore, *base: bytes) -> Journal:
    return await Journal.create(store, store_id=STORE_ID, dek=DEK, base=base or (b"base",))


async def again(store: MemoryStore) -> tuple[Journal, Replay]:
    return await Journal.open(store, store_id=STORE_ID, dek=DEK)


async def test_what_is_appended_is_read_again() -> None:
    store = MemoryStore()
    journal = await new(store, b"one", b"two", b"")
    await journal.append([b"first", b""])
    position = await journal.append([b"second"])
    assert (position.epoch, position.sequence) == (1, 6)
    reopened, replay = await again(store)
    assert replay == Replay((b"one", b"two", b""), (b"first", b"", b"second"))
    assert reopened.position == journal.position == position


async def test_appending_nothing_changes_nothing() -> None:
    journal = await new(MemoryStore())
    assert await journal.append([]) == journal.position


async def test_a_second_journal_is_not_made_over_the_first() -> None:
    store = MemoryStore()
    await new(store)
    with pytest.raises(StoreConflictError):
        await new(store)


async def test_an_empty_store_has_no_journal() -> None:
    with pytest.raises(StoreEmptyError):
        await again(MemoryStore())


async def test_a_base_has_at_least_one_piece() -> None:
    journal = await new(MemoryStore())
    with pytest.raises(ValueError, match="payload"):
        await journal.begin_epoch([])
    await journal.append([b"still writes"])


async def test_a_payload_has_a_limit() -> None:
    journal = await new(MemoryStore())
    with pytest.raises(TooLargeError):
        await journal.append([bytes(MAX_PAYLOAD + 1)])
    await journal.append([b"still writes"])


async def test_two_journals_take_turns_by_conflict() -> None:
    store = MemoryStore()
    one = await new(store)
    other, _ = await again(store)
    await one.append([b"1", b"2"])
    with pytest.raises(StoreConflictError):
        await other.append([b"lost"])
    assert await other.catch_up() == Continuation((b"1", b"2"))
    assert await other.catch_up() == Continuation(())
    assert other.position == one.position
    await other.append([b"3"])
    with pytest.raises(StoreConflictError):
        await one.begin_epoch([b"too late"])
    assert await one.catch_up() == Continuation((b"3",))
    await one.begin_epoch([b"new base"])
    await one.append([b"4"])
    with pytest.raises(StoreConflictError):
        await other.append([b"lost"])
    assert await other.catch_up() == Replay((b"new base",), (b"4",))
    assert other.position == one.position
    await other.append([b"5"])
    assert (await again(store))[1] == Replay((b"new base",), (b"4", b"5"))


async def test_catching_up_over_a_new_data_key_needs_that_key() -> None:
    store = MemoryStore()
    one = await new(store)
    other, _ = await again(store)
    await one.begin_epoch([b"new base"], dek=OTHER_DEK)
    with pytest.raises(WrongKeyError):
        await other.catch_up()
    with pytest.raises(WrongKeyError):
        await again(store)
    _, replay = await Journal.open(store, store_id=STORE_ID, dek=OTHER_DEK)
    assert replay == Replay((b"new base",), ())


class Recording(MemoryStore):
    """Records the content of each attempt, refused or not."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts: list[list[Sealed]] = []

    async def append(self, expected: Position, records: Sequence[Sealed], head: Position) -> None:
        self.attempts.append(list(records))
        await super().append(expected, records, head)


async def test_a_retry_after_conflict_seals_with_a_new_nonce() -> None:
    store = Recording()
    one = await new(store)
    other, _ = await again(store)
    await one.append([b"first"])
    with pytest.raises(StoreConflictError):
        await other.append([b"same"])
    await other.catch_up()
    await other.append([b"same"])
    await other.append([b"same"])
    nonces = [record.nonce for attempt in store.attempts for record in attempt]
    assert len(set(nonces)) == len(nonces) == 4
    assert all(len(nonce) == NONCE_SIZE for nonce in nonces)


async def test_a_store_set_back_to_each_sequence_never_sees_a_nonce_again() -> None:
    store = MemoryStore()
    journal = await new(store)
    for number in range(20):
        await journal.append([b"%d" % number])
    start, records = store._start, list(store._records)
    nonces = [record.nonce for record in records]
    for length in range(1, len(records)):
        restored = MemoryStore()
        put_back(restored, start, records[:length])
        forked, _ = await again(restored)
        await forked.append([b"something else"])
        nonces.append(restored._records[-1].nonce)
    assert len(set(nonces)) == len(nonces)


def dot(left: int, right: int) -> int:
    """Multiply in the field of POLYVAL, by x to the power of -128 (RFC 8452, section 3)."""
    product = 0
    for bit in range(128):
        if right >> bit & 1:
            product ^= left << bit
    for _ in range(128):
        if product & 1:
            product ^= 1 | 1 << 121 | 1 << 126 | 1 << 127 | 1 << 128
        product >>= 1
    return product


def authentication_key(key: bytes, nonce: bytes) -> int:
    """Return the POLYVAL key that AES-GCM-SIV derives (RFC 8452, section 4)."""
    aes = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - as the RFC says
    halves = [aes.update(bytes([n, 0, 0, 0]) + nonce)[:8] for n in (0, 1)]
    return int.from_bytes(b"".join(halves), "little")


async def test_a_forged_record_with_an_equal_tag_breaks_the_chain() -> None:
    """A party with the key can make another text with the same nonce and the same tag."""
    store = MemoryStore()
    journal = await new(store)
    before = journal.position
    text = b"pay 0000000010 EUR to the baker."
    await journal.append([text])
    genuine = store._records[1]
    key = record_key(DEK, STORE_ID, 1).reveal()
    difference = 1 << 40
    correction = dot(difference, authentication_key(key, genuine.nonce))
    mask = difference.to_bytes(16, "little") + correction.to_bytes(16, "little")
    forged_text = bytes(a ^ b for a, b in zip(text, mask, strict=True))
    forged = AESGCMSIV(key).encrypt(genuine.nonce, forged_text, genuine.header + before.chain)
    assert forged != genuine.ciphertext
    assert forged[-16:] == genuine.ciphertext[-16:]

    store._records[1] = msgspec.structs.replace(genuine, ciphertext=forged)
    with pytest.raises(RolledBackError):
        await Journal.open(store, store_id=STORE_ID, dek=DEK, at_least=journal.position)
    store._records[1] = genuine
    await journal.append([b"after"])
    store._records[1] = msgspec.structs.replace(genuine, ciphertext=forged)
    with pytest.raises(StoreDamagedError, match=r"record 3 .*changed"):
        await again(store)


def exchange(field: str, change: Callable[[bytes], bytes]) -> Callable[[list[Sealed]], None]:
    def apply(records: list[Sealed]) -> None:
        value = change(getattr(records[2], field))
        records[2] = msgspec.structs.replace(records[2], **{field: value})

    return apply


def swap_two(records: list[Sealed]) -> None:
    records[2], records[3] = records[3], records[2]


def drop_one(records: list[Sealed]) -> None:
    del records[2]


def repeat_one(records: list[Sealed]) -> None:
    records.insert(2, records[2])


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (exchange("header", lambda raw: b"\x02" + raw[1:]), StoreNewerError),
        (exchange("header", lambda raw: b"\x00" + raw[1:]), StoreDamagedError),
        (exchange("header", lambda raw: raw[:1] + b"\x01" + raw[2:]), StoreDamagedError),
        (exchange("header", lambda raw: raw[:1] + b"\x02" + raw[2:]), StoreDamagedError),
        (exchange("header", lambda raw: raw[:1] + b"\x09" + raw[2:]), StoreDamagedError),
        (exchange("header", lambda raw: raw[:2] + b"\x00" + raw[3:]), StoreDamagedError),
        (exchange("header", lambda raw: raw[:25] + b"\x02" + raw[26:]), StoreDamagedError),
        (exchange("header", lambda raw: raw[:33] + b"\x09"), StoreDamagedError),
        (exchange("header", lambda raw: raw[:-1]), StoreDamagedError),
        (exchange("header", lambda raw: raw + b"\0"), StoreDamagedError),
        (exchange("header", lambda _: b""), StoreDamagedError),
        (exchange("nonce", lambda _: bytes(12)), StoreDamagedError),
        (exchange("nonce", lambda raw: raw[:-1]), StoreDamagedError),
        (exchange("nonce", lambda _: b""), StoreDamagedError),
        (exchange("ciphertext", lambda raw: raw[:-1]), StoreDamagedError),
        (exchange("ciphertext", lambda raw: bytes([raw[0] ^ 1]) + raw[1:]), StoreDamagedError),
        (exchange("ciphertext", lambda _: b""), StoreDamagedError),
        (swap_two, StoreDamagedError),
        (drop_one, StoreDamagedError),
        (repeat_one, StoreDamagedError),
    ],
)
async def test_a_changed_record_is_refused(
    change: Callable[[list[Sealed]], None], error: type[KeyhouseError]
) -> None:
    store = MemoryStore()
    journal = await new(store)
    for payload in (b"one", b"two", b"three", b"four"):
        await journal.append([payload])
    change(store._records)
    with pytest.raises(error):
        await again(store)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"store_id": bytes(16)}, StoreDamagedError),
        ({"epoch": 3}, WrongKeyError),
        ({"epoch": 1}, StoreDamagedError),
        ({"first": 2}, StoreDamagedError),
        ({"first": 7}, StoreDamagedError),
        ({"previous": bytes(32)}, StoreDamagedError),
        ({"key_check": bytes(32)}, WrongKeyError),
    ],
    ids=str,
)
async def test_a_changed_start_of_an_epoch_is_refused(
    change: dict[str, object], error: type[KeyhouseError]
) -> None:
    store = MemoryStore()
    journal = await new(store)
    await journal.append([b"one"])
    await journal.begin_epoch([b"base"])
    assert store._start is not None
    store._start = msgspec.structs.replace(store._start, **change)
    with pytest.raises(error):
        await again(store)


async def test_a_base_that_was_cut_off_is_refused() -> None:
    store = MemoryStore()
    await new(store, b"1", b"2", b"3")
    del store._records[2:]
    with pytest.raises(StoreDamagedError, match="within the base"):
        await again(store)


async def test_a_journal_behind_a_known_position_was_rolled_back() -> None:
    store = MemoryStore()
    journal = await new(store)
    old = (store._start, list(store._records))
    await journal.append([b"one"])
    known = journal.position
    await journal.append([b"two"])
    _, replay = await Journal.open(store, store_id=STORE_ID, dek=DEK, at_least=known)
    assert replay.events == (b"one", b"two")
    put_back(store, *old)
    with pytest.raises(RolledBackError, match=r"1\.1 .*1\.2"):
        await Journal.open(store, store_id=STORE_ID, dek=DEK, at_least=known)
    with pytest.raises(RolledBackError):
        await journal.catch_up()
    forked, _ = await again(store)
    await forked.append([b"another one"])
    with pytest.raises(RolledBackError, match="record 2 "):
        await Journal.open(store, store_id=STORE_ID, dek=DEK, at_least=known)


async def test_a_start_knows_the_places_of_what_it_has_read() -> None:
    store = MemoryStore()
    journal = await Journal.create(store, store_id=STORE_ID, dek=DEK, base=[b"base"])
    places = [journal.position, *[await journal.append([b"event"]) for _ in range(3)]]
    opened, _ = await Journal.open(store, store_id=STORE_ID, dek=DEK)
    assert [opened.trail.at(number) for number in range(5)] == [None, *places]
    await journal.begin_epoch([b"base"])
    await opened.catch_up()
    assert [opened.trail.at(number) for number in range(6)] == [None, *places, journal.position]


async def test_an_older_epoch_than_known_was_rolled_back() -> None:
    store = MemoryStore()
    journal = await new(store)
    old = (store._start, list(store._records))
    await journal.begin_epoch([b"base"])
    put_back(store, *old)
    with pytest.raises(RolledBackError):
        await Journal.open(store, store_id=STORE_ID, dek=DEK, at_least=journal.position)
    with pytest.raises(KeyhouseError):
        await journal.catch_up()


async def test_a_known_position_before_the_epoch_is_compared() -> None:
    store = MemoryStore()
    journal = await new(store)
    known = journal.position
    await journal.begin_epoch([b"base"])
    await Journal.open(store, store_id=STORE_ID, dek=DEK, at_least=known)
    for wrong in (
        msgspec.structs.replace(known, chain=bytes(32)),
        msgspec.structs.replace(known, sequence=5),
    ):
        with pytest.raises(RolledBackError):
            await Journal.open(store, store_id=STORE_ID, dek=DEK, at_least=wrong)


async def test_another_deployment_is_refused() -> None:
    store = MemoryStore()
    await new(store)
    with pytest.raises(StoreDamagedError, match="another deployment"):
        await Journal.open(store, store_id=bytes(16), dek=DEK)
    with pytest.raises(WrongKeyError):
        await Journal.open(store, store_id=STORE_ID, dek=OTHER_DEK)


async def test_it_tells_when_the_records_outweigh_the_base() -> None:
    store = MemoryStore()
    journal = await new(store)
    await journal.append([bytes(_LIGHTEST_BASE - 1024)])
    assert not journal.outweighs_base()
    await journal.append([bytes(2048)])
    assert journal.outweighs_base()
    assert (await again(store))[0].outweighs_base()
    await journal.begin_epoch([bytes(3 * _LIGHTEST_BASE)])
    await journal.append([bytes(2 * _LIGHTEST_BASE)])
    assert not journal.outweighs_base()


def test_keys_differ_by_use_store_and_epoch() -> None:
    keys = {
        hashlib.sha256(key).digest()
        for store_id in (STORE_ID, bytes(16))
        for epoch in (1, 2)
        for key in (
            record_key(DEK, store_id, epoch).reveal(),
            index_mac_key(DEK, store_id, epoch).reveal(),
            key_check(DEK, store_id, epoch),
        )
    }
    assert len(keys) == 12


class Failing(MemoryStore):
    """A store whose next write fails, before or after the write happens."""

    def __init__(self) -> None:
        super().__init__()
        self.fail: KeyhouseError | None = None
        self.saved = False
        self.unreadable = False
        self.between: Callable[[], None] = lambda: None

    async def append(self, expected: Position, records: Sequence[Sealed], head: Position) -> None:
        if self.fail is None or self.saved:
            await super().append(expected, records, head)
        self._fail()

    async def begin_epoch(
        self,
        expected: Position | None,
        start: EpochStart,
        records: Iterable[Sealed],
        beside: Beside = NOTHING,
        /,
    ) -> None:
        if self.fail is None or self.saved:
            await super().begin_epoch(expected, start, records, beside)
        else:
            list(records)
        self._fail()

    async def read(self, after_seq: int) -> Batch:
        self._require_readable()
        return await super().read(after_seq)

    async def settle(self) -> Position | None:
        self._require_readable()
        return await super().settle()

    def _require_readable(self) -> None:
        if self.unreadable:
            raise StoreUnreadableError("test: unreadable")

    def _fail(self) -> None:
        fail, self.fail = self.fail, None
        if fail is not None:
            self.between()
            raise fail


UNKNOWN = OutcomeUnknownError("test: unknown")


@pytest.mark.parametrize("epoch", [False, True], ids=["append", "begin_epoch"])
@pytest.mark.parametrize(
    ("fail", "saved", "unreadable", "raised", "progress", "fatal"),
    [
        (StoreConflictError("test"), False, False, StoreConflictError, False, False),
        (StoreFullError("test"), False, False, StoreFullError, False, False),
        (UNKNOWN, False, False, NotDurableError, False, False),
        (UNKNOWN, True, False, None, True, False),
        (UNKNOWN, False, True, OutcomeUnknownError, False, True),
        (UNKNOWN, True, True, OutcomeUnknownError, True, True),
    ],
    ids=["conflict", "full", "absent", "present", "absent-unreadable", "present-unreadable"],
)
async def test_each_way_a_write_fails(
    epoch: bool,  # noqa: FBT001 - a parameter of the table
    fail: KeyhouseError,
    saved: bool,  # noqa: FBT001 - a parameter of the table
    unreadable: bool,  # noqa: FBT001 - a parameter of the table
    raised: type[KeyhouseError] | None,
    progress: bool,  # noqa: FBT001 - a parameter of the table
    fatal: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    store = Failing()
    journal = await new(store)
    store.fail, store.saved, store.unreadable = fail, saved, unreadable

    async def write() -> None:
        if epoch:
            await journal.begin_epoch([b"written", b"more"])
        else:
            await journal.append([b"written", b"more"])

    if raised is None:
        await write()
    else:
        with pytest.raises(raised):
            await write()
    store.unreadable = False
    if fatal:
        with pytest.raises(OutcomeUnknownError):
            await journal.append([b"next"])
        with pytest.raises(OutcomeUnknownError):
            await journal.catch_up()
        assert not journal.settled
        if progress:
            await journal.settle()
        else:
            with pytest.raises(NotDurableError):
                await journal.settle()
    assert journal.settled
    assert await journal.settle() == journal.position
    await journal.append([b"next"])
    reopened, replay = await again(store)
    assert reopened.position == journal.position
    written = (b"written", b"more") if progress else ()
    base = written if epoch and progress else (b"base",)
    assert replay == Replay(base, (b"next",) if epoch else (*written, b"next"))


async def test_an_unknown_outcome_with_anothers_records_there_is_a_conflict() -> None:
    store = Failing()
    journal = await new(store)
    other, _ = await again(store)
    store.fail, store.saved = UNKNOWN, False
    sealed, _ = other._sealer.seal(other.position, PayloadKind.EVENT, b"theirs")
    store.between = lambda: put_back(store, store._start, [*store._records, sealed])
    with pytest.raises(StoreConflictError):
        await journal.append([b"ours"])
    assert await journal.catch_up() == Continuation((b"theirs",))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.lists(st.binary(max_size=20), max_size=4)),
            st.tuples(st.just("epoch"), st.lists(st.binary(max_size=20), min_size=1, max_size=4)),
        ),
        max_size=8,
    )
)
async def test_replay_gives_what_was_written(steps: list[tuple[str, list[bytes]]]) -> None:
    store = MemoryStore()
    journal = await new(store)
    base: tuple[bytes, ...] = (b"base",)
    events: tuple[bytes, ...] = ()
    for what, payloads in steps:
        if what == "append":
            await journal.append(payloads)
            events += tuple(payloads)
        else:
            await journal.begin_epoch(payloads)
            base, events = tuple(payloads), ()
        reopened, replay = await again(store)
        assert replay == Replay(base, events)
        assert reopened.position == journal.position


def test_who_has_the_data_key_cannot_put_a_record_at_another_place() -> None:
    """The tag covers header and chain; the reader compares both with the place of the record."""
    sealer, chain = Sealer(DEK, STORE_ID, 1), first_link(STORE_ID)
    record, _ = sealer.seal(Position(1, 7, chain), PayloadKind.EVENT, b"the eighth")
    for sequence in (1, 8):
        moved = msgspec.structs.replace(record, sequence=sequence)
        with pytest.raises(StoreDamagedError):
            sealer.unseal(Position(1, 0, chain), moved)
    first, _ = sealer.seal(Position(1, 0, chain), PayloadKind.EVENT, b"the first")
    with pytest.raises(StoreDamagedError, match=r"record 8 .* 1 "):
        sealer.unseal(Position(1, 0, chain), msgspec.structs.replace(first, sequence=8))


@pytest.mark.parametrize(
    "kinds",
    [
        (PayloadKind.EVENT,),
        (PayloadKind.BASE_END, PayloadKind.BASE),
        (PayloadKind.BASE_END, PayloadKind.BASE_END),
    ],
)
def test_who_has_the_data_key_cannot_mix_base_and_events(kinds: tuple[PayloadKind, ...]) -> None:
    sealer = Sealer(DEK, STORE_ID, 1)
    start = EpochStart(STORE_ID, 1, 1, first_link(STORE_ID), bytes(32))
    replayer = Replayer(sealer, start)
    *before, last = kinds
    for kind in before:
        replayer.verify(sealer.seal(replayer.position, kind, b"payload")[0])
    with pytest.raises(StoreDamagedError, match="wrong kind"):
        replayer.verify(sealer.seal(replayer.position, last, b"payload")[0])
