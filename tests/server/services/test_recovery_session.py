"""Shares that are handed in: what is taken, what is refused, and what a refusal spoils: nothing."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from support.samples.crafted import Made, keys_of_a_root, made
from support.samples.deployment import MACHINE, NOW, FixedClock, running_engine, stored
from support.samples.fixed_keys import RSA_4096
from support.samples.recovery import Holder, encrypted, holder, holders, recoverable

from keyhouse.authority import CoordinatorKeys, EphemeralKey, IndexDamagedError, make_recovery
from keyhouse.authority.recovery.submitted import ShareRefusedError
from keyhouse.base.errors import (
    BadRequestError,
    ConflictError,
    InvalidError,
    UnavailableError,
    WrongPhaseError,
)
from keyhouse.base.secret import Secret
from keyhouse.coordinator import Engine, Phase, prepare_manifest
from keyhouse.coordinator.core.state import Recovering
from keyhouse.coordinator.engine.recover import RecoveryRefusedError
from keyhouse.journal.directory.index_file import IndexFile
from keyhouse.server.services.recovery import RecoveryProgress, RecoverySession

ELSEWHERE = Secret(b"another machine, which has other keys")
KEYS = holders(3)
_BEFORE = RSA_4096.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
"""The ephemeral key of a process before."""


@cache
def _key() -> EphemeralKey:
    return EphemeralKey()


async def _nothing_to_do(_keys: CoordinatorKeys) -> Callable[[], None]:
    return lambda: None


class Desk:
    """A desk over an engine in recovery mode, with the holders in front of it."""

    def __init__(self, engine: Engine, shares: dict[str, Secret]) -> None:
        self.engine = engine
        self.shares = shares
        self.desk = RecoverySession(engine, _nothing_to_do, _key)

    @property
    def phase(self) -> Phase:
        return self.engine.view.phase

    async def hand_in(self, by: Holder, *, encrypt: bool = False) -> RecoveryProgress:
        """Let ``by`` hand in his share."""
        return await self.give(self.shares[by.name].reveal(), by, encrypt=encrypt)

    async def give(
        self, share: bytes, signed_by: Holder, *, encrypt: bool = False
    ) -> RecoveryProgress:
        """Hand in ``share`` with a signature over it."""
        sent = encrypted((await self.desk.public_key()).public_key, share) if encrypt else share
        return await self.desk.upload(Secret(sent), signed_by.sign(share))


def _shares(crafted: Made, keys: list[Holder]) -> dict[str, Secret]:
    found = crafted.running.recovery.ciphertexts
    return {each.name: Secret(each.share(found[each.name])) for each in keys if each.name in found}


@asynccontextmanager
async def _desk(
    path: Path, shares: dict[str, Secret], clock: FixedClock | None = None
) -> AsyncIterator[Desk]:
    async with running_engine(path, clock, ELSEWHERE) as engine:
        desk = Desk(engine, shares)
        try:
            yield desk
        finally:
            desk.desk.close()


@asynccontextmanager
async def _lost(path: Path, threshold: int = 2) -> AsyncIterator[Desk]:
    """Open a deployment of three holders on another machine than its own."""
    crafted = made(recoverable(KEYS, threshold))
    await crafted.write(path)
    async with _desk(path, _shares(crafted, KEYS)) as desk:
        yield desk


@pytest.mark.parametrize("threshold", [0, 2, 3])
async def test_shares_in_any_order_plain_and_encrypted_mixed_recover_the_state(
    tmp_path: Path, threshold: int
) -> None:
    needed = threshold or len(KEYS)
    async with _lost(tmp_path, threshold) as desk:
        await desk.desk.public_key()
        for number, by in enumerate(KEYS[::-1][:needed]):
            assert desk.phase is Phase.RECOVERY
            progress = await desk.hand_in(by, encrypt=number % 2 == 0)
            assert progress.remaining == needed - number - 1
            assert f'"{by.name}"' in progress.message
            assert progress.view is desk.engine.view
        assert desk.phase is Phase.RUNNING
        assert stored(desk.engine.view)["shared"]
        log = desk.engine.view.log.lines()
        assert len(log) == 1  # a recovery is no update
    async with running_engine(tmp_path, machine=ELSEWHERE) as again:
        assert again.view.phase is Phase.RUNNING


async def test_one_key_alone_recovers_and_a_wrong_one_is_refused_without_harm(
    tmp_path: Path,
) -> None:
    crafted = made(recoverable(KEYS[:1]))
    await crafted.write(tmp_path)
    async with _desk(tmp_path, _shares(crafted, KEYS)) as desk:
        with pytest.raises(ShareRefusedError, match="does not belong to this state"):
            await desk.give(bytes(32), KEYS[0])
        assert (await desk.hand_in(KEYS[0])).remaining == 0


async def test_fewer_shares_than_the_threshold_recover_nothing(tmp_path: Path) -> None:
    async with _lost(tmp_path, 2) as desk:
        progress = await desk.hand_in(KEYS[0])
        assert (progress.remaining, desk.phase) == (1, Phase.RECOVERY)
        assert (await desk.desk.public_key()).received == (KEYS[0].name,)


async def test_share_from_another_deployment_is_refused(tmp_path: Path) -> None:
    other = _shares(made(recoverable(KEYS, 2)), KEYS)
    async with _lost(tmp_path) as desk:
        await desk.hand_in(KEYS[0])
        for encrypt in (False, True):
            with pytest.raises(ShareRefusedError):
                await desk.give(other[KEYS[1].name].reveal(), KEYS[1], encrypt=encrypt)
        assert (await desk.hand_in(KEYS[1])).remaining == 0


async def test_share_signed_by_another_key_is_refused(tmp_path: Path) -> None:
    async with _lost(tmp_path) as desk:
        share = desk.shares[KEYS[0].name].reveal()
        for by in (KEYS[1], holder("a stranger")):
            for encrypt in (False, True):
                with pytest.raises(ShareRefusedError, match="signature"):
                    await desk.give(share, by, encrypt=encrypt)
        assert desk.desk.received == ()
        assert (await desk.hand_in(KEYS[0])).remaining == 1


async def test_repeated_share_is_refused_and_counts_once(tmp_path: Path) -> None:
    async with _lost(tmp_path) as desk:
        await desk.hand_in(KEYS[0])
        for encrypt in (False, True):
            with pytest.raises(ShareRefusedError, match=r'"rk0" .*before'):
                await desk.hand_in(KEYS[0], encrypt=encrypt)
        assert desk.phase is Phase.RECOVERY
        assert (await desk.hand_in(KEYS[2])).remaining == 0


async def test_share_of_one_holder_under_the_signature_of_another_share_is_refused(
    tmp_path: Path,
) -> None:
    async with _lost(tmp_path) as desk:
        mine, other = (desk.shares[each.name].reveal() for each in KEYS[:2])
        sent = encrypted((await desk.desk.public_key()).public_key, mine)
        with pytest.raises(ShareRefusedError):
            await desk.desk.upload(Secret(sent), KEYS[1].sign(other))
        assert desk.desk.received == ()


async def test_key_is_made_for_the_first_who_asks_and_serves_all(tmp_path: Path) -> None:
    made_for: list[EphemeralKey] = []

    def make() -> EphemeralKey:
        made_for.append(_key())
        return _key()

    async with _lost(tmp_path) as desk:
        desk.desk.close()
        desk.desk = RecoverySession(desk.engine, _nothing_to_do, make)
        await desk.hand_in(KEYS[0])
        assert made_for == []  # a plain share needs none
        answers = await asyncio.gather(*(desk.desk.public_key() for _ in range(3)))
        assert {answer.public_key for answer in answers} == {_key().public_key}
        assert (await desk.hand_in(KEYS[1], encrypt=True)).remaining == 0
        assert made_for == [_key()]


@pytest.mark.parametrize("asked", [False, True])
async def test_upload_under_a_key_from_before_a_restart_is_refused(
    tmp_path: Path, *, asked: bool
) -> None:
    async with _lost(tmp_path) as desk:
        if asked:
            await desk.desk.public_key()
        share = desk.shares[KEYS[0].name].reveal()
        recorded = encrypted(_BEFORE, share)
        with pytest.raises(BadRequestError):
            await desk.desk.upload(Secret(recorded), KEYS[0].sign(share))


async def test_replay_after_the_recovery_is_refused(tmp_path: Path) -> None:
    async with _lost(tmp_path) as desk:
        await desk.hand_in(KEYS[0])
        await desk.hand_in(KEYS[1])
        for by in KEYS:
            with pytest.raises(WrongPhaseError):
                await desk.hand_in(by)
        with pytest.raises(WrongPhaseError):
            await desk.desk.public_key()


async def test_restart_between_two_shares_starts_again(tmp_path: Path) -> None:
    async with _lost(tmp_path) as desk:
        await desk.hand_in(KEYS[0])
        shares = desk.shares
    async with _desk(tmp_path, shares) as desk:
        assert (await desk.hand_in(KEYS[1])).remaining == 1
        assert (await desk.hand_in(KEYS[0])).remaining == 0


async def test_refused_manifest_between_two_shares_spoils_nothing(tmp_path: Path) -> None:
    async with _lost(tmp_path) as desk:
        await desk.hand_in(KEYS[0])
        state = desk.engine.view.state
        assert isinstance(state, Recovering)
        with pytest.raises(InvalidError):
            prepare_manifest(state, b'{"Packages": 1}', now=NOW)
        assert (await desk.hand_in(KEYS[1])).remaining == 0


async def test_manifest_prepared_before_a_recovery_does_not_replace_it(tmp_path: Path) -> None:
    async with _lost(tmp_path) as desk:
        state = desk.engine.view.state
        assert isinstance(state, Recovering)
        command = prepare_manifest(state, recoverable([]), now=NOW)
        await desk.hand_in(KEYS[0])
        await desk.hand_in(KEYS[1])
        with pytest.raises(WrongPhaseError):
            await desk.engine.submit(command)
        assert desk.engine.view.running.manifest != command.manifest


async def test_share_after_a_new_manifest_is_refused(tmp_path: Path) -> None:
    async with _lost(tmp_path) as desk:
        await desk.hand_in(KEYS[0])
        state = desk.engine.view.state
        assert isinstance(state, Recovering)
        await desk.engine.submit(prepare_manifest(state, recoverable([]), now=NOW))
        with pytest.raises(WrongPhaseError):
            await desk.hand_in(KEYS[1])
        assert desk.desk.received == ()


async def test_shares_submitted_at_the_same_time_are_all_counted(tmp_path: Path) -> None:
    async with _lost(tmp_path, 0) as desk:
        found = await asyncio.gather(*(desk.hand_in(by) for by in KEYS))
        assert sorted(progress.remaining for progress in found) == [0, 1, 2]
        assert desk.phase is Phase.RUNNING


async def test_upload_continues_when_its_client_leaves(tmp_path: Path) -> None:
    async with _lost(tmp_path) as desk:
        await desk.hand_in(KEYS[0])
        leaving = asyncio.create_task(desk.hand_in(KEYS[1]))
        await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        with pytest.raises(
            WrongPhaseError
        ):  # waits for its turn, behind the one that was left alone
            await desk.hand_in(KEYS[2])
        assert desk.phase is Phase.RUNNING


async def test_upload_whose_client_leaves_before_its_turn_is_not_taken(tmp_path: Path) -> None:
    async with _lost(tmp_path) as desk:
        first, leaving = (asyncio.create_task(desk.hand_in(key)) for key in KEYS[:2])
        await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert (await first).remaining == 1
        assert (await desk.hand_in(KEYS[2])).received == ("rk0", "rk2")


# --- states that someone made up ---


ATTACKERS = [holder("attacker"), holder("another attacker")]


async def _attack(path: Path, crafted: Made, by: list[Holder], shares: dict[str, Secret]) -> str:
    """Hand in everything that the attacker has; return how the last upload was refused."""
    async with _desk(path, shares) as desk:
        for each in by[:-1]:
            await desk.hand_in(each)
        with pytest.raises((RecoveryRefusedError, ShareRefusedError)) as refused:
            await desk.hand_in(by[-1])
        assert desk.phase is Phase.RECOVERY
        assert desk.desk.received == ()
        assert desk.engine.view.state.keys != crafted.running.keys
    async with running_engine(path, machine=ELSEWHERE) as restarted:
        assert restarted.view.phase is Phase.RECOVERY  # nothing was sealed
    return str(refused.value)


def _own_shares(crafted: Made, by: list[Holder]) -> dict[str, Secret]:
    """Let the attacker split the key that he made up among keys of his own."""
    public = {each.name: _spki(each) for each in by}
    recovery = make_recovery(crafted.dek, public, 0)
    crafted.running = msgspec.structs.replace(crafted.running, recovery=recovery)
    crafted.reindex()
    return _shares(crafted, by)


def _spki(each: Holder) -> bytes:
    index = made(recoverable([each])).index
    return index.holders[0].public_key


@pytest.mark.parametrize("count", [1, 2])
async def test_crafted_state_with_the_attackers_recovery_keys_is_refused(
    tmp_path: Path, count: int
) -> None:
    crafted = made(recoverable(KEYS[:count]))  # the manifest of someone else
    shares = _own_shares(crafted, ATTACKERS[:count])
    await crafted.write(tmp_path)
    refused = await _attack(tmp_path, crafted, ATTACKERS[:count], shares)
    assert "are not the recovery keys of the shares" in refused


async def test_crafted_state_without_recovery_keys_is_refused(tmp_path: Path) -> None:
    crafted = made(recoverable([]))
    shares = _own_shares(crafted, ATTACKERS[:1])
    await crafted.write(tmp_path)
    refused = await _attack(tmp_path, crafted, ATTACKERS[:1], shares)
    assert "has no recovery keys" in refused


async def test_state_without_recovery_keys_is_recovered_by_nobodys_key(tmp_path: Path) -> None:
    crafted = made(recoverable([]))
    await crafted.write(tmp_path)
    async with _desk(tmp_path, {}) as desk:
        for share in (crafted.dek.reveal(), bytes(32), os.urandom(33), b"", os.urandom(512)):
            with pytest.raises(ConflictError):
                await desk.give(share, KEYS[0])
        with pytest.raises(ConflictError):
            await desk.desk.public_key()


async def test_index_that_names_the_attackers_keys_beside_a_true_journal_is_refused(
    tmp_path: Path,
) -> None:
    crafted = made(recoverable(KEYS[:1]))
    stolen = make_recovery(crafted.dek, {"attacker": _spki(ATTACKERS[0])}, 0)
    crafted.reindex(stolen)  # who knows the data key could do this
    await crafted.write(tmp_path)
    shares = {"attacker": Secret(ATTACKERS[0].share(stolen.holders[0].ciphertext))}
    refused = await _attack(tmp_path, crafted, ATTACKERS[:1], shares)
    assert "contradicts the recovered state" in refused


async def test_index_under_another_data_key_is_refused(tmp_path: Path) -> None:
    crafted = made(recoverable(KEYS[:1]))
    await crafted.write(tmp_path, mac_key=Secret(os.urandom(32)))
    refused = await _attack(tmp_path, crafted, KEYS[:1], _shares(crafted, KEYS))
    assert "does not belong to this data key" in refused


async def test_root_certificate_of_another_deployment_without_its_key_is_refused(
    tmp_path: Path,
) -> None:
    crafted = made(recoverable(KEYS[:1]))
    victim = keys_of_a_root()
    shares = _shares(crafted, KEYS)
    false = msgspec.structs.replace(crafted.running.keys, root_cert=victim.root_cert)
    crafted.running = msgspec.structs.replace(crafted.running, keys=false)
    crafted.signer = victim  # its signature over an index can be copied; here it is made
    crafted.reindex()
    await crafted.write(tmp_path)
    refused = await _attack(tmp_path, crafted, KEYS[:1], shares)
    assert "root key has not signed" in refused


async def test_threshold_lower_than_that_of_the_manifest_is_refused(tmp_path: Path) -> None:
    crafted = made(recoverable(KEYS))  # all three are needed
    public = {each.name: _spki(each) for each in KEYS}
    lower = make_recovery(crafted.dek, public, 2)
    crafted.running = msgspec.structs.replace(crafted.running, recovery=lower)
    crafted.reindex()
    await crafted.write(tmp_path)
    refused = await _attack(tmp_path, crafted, KEYS[:2], _shares(crafted, KEYS))
    assert "requires 3 shares; 2 were submitted" in refused


async def test_state_of_another_kind_of_platform_is_refused(tmp_path: Path) -> None:
    crafted = made(recoverable(KEYS[:1]))
    crafted.running = msgspec.structs.replace(crafted.running, platform="simulation")
    await crafted.write(tmp_path)
    refused = await _attack(tmp_path, crafted, KEYS[:1], _shares(crafted, KEYS))
    assert "platform simulation" in refused


async def test_state_that_holds_no_readable_manifest_is_refused(tmp_path: Path) -> None:
    crafted = made(recoverable(KEYS[:1]))
    shares = _shares(crafted, KEYS)
    readable, manifest = crafted.running, b"{\xff"
    crafted.running = msgspec.structs.replace(readable, manifest=manifest)
    crafted.reindex()
    crafted.running = readable
    await crafted.write(tmp_path, manifest=manifest)
    assert await _attack(tmp_path, crafted, KEYS[:1], shares)


async def test_index_of_another_deployment_opens_nothing(tmp_path: Path) -> None:
    mine, other = made(recoverable(KEYS[:1])), made(recoverable(KEYS[:1]))
    mine.index, mine.signer = other.index, other.signer
    shares = _shares(other, KEYS)
    await mine.write(tmp_path)
    refused = await _attack(tmp_path, mine, KEYS[:1], shares)
    assert "cannot be recovered" in refused


async def test_index_that_its_own_root_did_not_sign_is_refused_at_once(tmp_path: Path) -> None:
    crafted = made(recoverable(KEYS[:1]))
    await crafted.write(tmp_path)
    path = tmp_path / "recovery_index"
    raw = bytearray(path.read_bytes())
    at = raw.index(crafted.index.holders[0].share_hash)
    raw[at] ^= 1
    content = bytes(raw[33:-32])
    path.write_bytes(IndexFile(crafted.store_id, 1, content).encode())
    async with _desk(tmp_path, _shares(crafted, KEYS)) as desk:
        with pytest.raises(IndexDamagedError):
            await desk.hand_in(KEYS[0])
        with pytest.raises(IndexDamagedError):
            await desk.desk.public_key()


async def test_clock_a_year_ahead_stops_a_recovery_until_it_is_confirmed(tmp_path: Path) -> None:
    crafted = made(recoverable(KEYS[:1]))
    await crafted.write(tmp_path)
    clock = FixedClock(NOW + 2 * 365 * 24 * 3600 * 1_000_000)
    async with _desk(tmp_path, _shares(crafted, KEYS), clock) as desk:
        with pytest.raises(RecoveryRefusedError, match="--confirm-clock"):
            await desk.hand_in(KEYS[0])
        clock.time = NOW
        assert (await desk.hand_in(KEYS[0])).remaining == 0


async def test_state_that_is_never_stored_is_refused(tmp_path: Path) -> None:
    raw = json.loads(recoverable(KEYS[:1]))
    raw["Config"] = {"SealMode": "Disabled"}
    crafted = made(json.dumps(raw).encode())
    await crafted.write(tmp_path)
    refused = await _attack(tmp_path, crafted, KEYS[:1], _shares(crafted, KEYS))
    assert "never stored" in refused


# --- failures of ours ---


async def test_failure_to_make_ready_costs_the_last_upload_only(tmp_path: Path) -> None:
    crafted = made(recoverable(KEYS, 2))
    await crafted.write(tmp_path)
    failing = [UnavailableError("the platform makes no quote now")]

    async def make_ready(keys: CoordinatorKeys) -> Callable[[], None]:
        if failing:
            raise failing.pop()
        return await _nothing_to_do(keys)

    async with running_engine(tmp_path, machine=ELSEWHERE) as engine:
        desk = Desk(engine, _shares(crafted, KEYS))
        desk.desk.close()
        desk.desk = RecoverySession(engine, make_ready, _key)
        await desk.hand_in(KEYS[0])
        with pytest.raises(UnavailableError):
            await desk.hand_in(KEYS[1])
        assert desk.desk.received == (KEYS[0].name,)
        assert desk.phase is Phase.RECOVERY
        assert (await desk.hand_in(KEYS[1])).remaining == 0
        desk.desk.close()


async def test_recovered_state_is_served_before_anybody_is_answered(tmp_path: Path) -> None:
    crafted = made(recoverable(KEYS[:1]))
    await crafted.write(tmp_path)
    served: list[tuple[bytes, Phase]] = []
    async with running_engine(tmp_path, machine=ELSEWHERE) as engine:

        async def make_ready(keys: CoordinatorKeys) -> Callable[[], None]:
            return lambda: served.append((keys.root_cert, engine.view.phase))

        desk = Desk(engine, _shares(crafted, KEYS))
        desk.desk.close()
        desk.desk = RecoverySession(engine, make_ready, _key)
        await desk.hand_in(KEYS[0])
        assert served == [(crafted.running.keys.root_cert, Phase.RECOVERY)]
        assert engine.view.state.keys == crafted.running.keys
        desk.desk.close()


async def test_own_machine_needs_no_recovery(tmp_path: Path) -> None:
    async with running_engine(tmp_path, machine=MACHINE) as engine:
        desk = Desk(engine, {})
        with pytest.raises(WrongPhaseError):
            await desk.give(bytes(32), KEYS[0])
        with pytest.raises(WrongPhaseError):
            await desk.desk.public_key()
        desk.desk.close()
