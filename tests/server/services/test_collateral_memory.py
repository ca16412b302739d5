"""Collateral older than what was seen is refused: after restarts, and with a clock turned back."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from support.samples.deployment import (
    NOW,
    FixedClock,
    manifest,
    moment,
    running_engine,
    set_manifest,
    user,
)
from support.samples.recovery import holders, recoverable

from keyhouse.attestation import (
    Collateral,
    CollateralUnavailableError,
    Mark,
    QuoteRefusedError,
    marks_of,
    read_facts,
)
from keyhouse.authority import CoordinatorKeys, SubmittedShare
from keyhouse.base.secret import Secret
from keyhouse.coordinator import Engine, Phase, Recovery, SentUpdate, prepare_update
from keyhouse.server.services.quote_checks import JournalledMarks, QuoteChecks
from keyhouse_simulation import (
    Lists,
    QeIdentity,
    QuoteParameters,
    SimulatedPlatform,
    TcbInfo,
    make_machine,
)

DAY = 24 * 3600 * 1_000_000
MACHINE = make_machine(moment(NOW) - timedelta(days=60))
PLATFORM = SimulatedPlatform(MACHINE, now=lambda: moment(NOW))
QUOTE = PLATFORM.quote(bytes(64))


def collateral(evaluation: int = 5, number: int = 5, lists_of: int = 1) -> Collateral:
    """Return collateral of those numbers; its lists were issued ``lists_of`` days ago."""
    parameters = QuoteParameters(
        tcb_info=TcbInfo(evaluation_number=evaluation, issued_ago=timedelta(days=20)),
        qe_identity=QeIdentity(evaluation_number=evaluation, issued_ago=timedelta(days=20)),
        lists=Lists(number=number, issued_ago=timedelta(days=lists_of)),
    )
    return SimulatedPlatform(MACHINE, parameters, now=lambda: moment(NOW)).collateral


@asynccontextmanager
async def checking(
    engine: Engine, found: Collateral, at: datetime | None = None
) -> AsyncIterator[QuoteChecks]:
    checks = QuoteChecks(
        PLATFORM.root_ca,
        lambda _: found,
        lambda: at or moment(engine.current.now()),
        JournalledMarks(engine),
    )
    try:
        yield checks
    finally:
        checks.close()


@pytest.mark.parametrize(
    ("older", "part"),
    [
        (collateral(evaluation=4), r"tcb-info/sgx/511151115111 .*\b4\b.*\b5\b"),
        (collateral(number=4), r"root-crl .*\b4\b.*\b5\b"),
        (collateral(lists_of=9), r"root-crl .*2027-01-06"),
    ],
    ids=["evaluation number", "number of lists", "date of lists"],
)
async def test_older_collateral_is_refused_after_a_restart_with_a_rewound_clock(
    tmp_path: Path, older: Collateral, part: str
) -> None:
    async with running_engine(tmp_path / "state") as engine:
        await set_manifest(engine, manifest())
        async with checking(engine, older) as checks:
            await checks.verify(QUOTE)
        async with checking(engine, collateral()) as checks:
            await checks.verify(QUOTE)
        position = engine.view.position
        async with checking(engine, collateral()) as checks:
            await checks.verify(QUOTE)
        assert engine.view.position == position  # nothing new, nothing written
    async with running_engine(tmp_path / "state", FixedClock(NOW - 15 * DAY)) as engine:
        assert moment(engine.current.now()) >= moment(NOW)
        for at in (None, moment(NOW) - timedelta(hours=20)):
            async with checking(engine, older, at) as checks:
                with pytest.raises(CollateralUnavailableError, match=part):
                    await checks.verify(QUOTE)
        async with checking(engine, collateral()) as checks:
            await checks.verify(QUOTE)


class Overtaken:
    """A memory in which others keep newer marks while one caller's are being kept."""

    def __init__(self) -> None:
        self._known: Mapping[str, Mark] = {}

    def known(self) -> Mapping[str, Mark]:
        return self._known

    async def remember(self, marks: Mapping[str, Mark]) -> None:
        newer = marks_of(read_facts(collateral(evaluation=6)))
        assert newer.keys() == marks.keys()
        self._known = newer


async def test_collateral_that_others_overtook_meanwhile_is_refused() -> None:
    source = collateral(evaluation=5)
    checks = QuoteChecks(PLATFORM.root_ca, lambda _: source, lambda: moment(NOW), Overtaken())
    with pytest.raises(CollateralUnavailableError):
        await checks.verify(QUOTE)
    checks.close()


async def test_newer_collateral_of_a_quote_that_does_not_verify_is_not_remembered(
    tmp_path: Path,
) -> None:
    bent = QUOTE[:100] + bytes([QUOTE[100] ^ 1]) + QUOTE[101:]
    async with running_engine(tmp_path / "state") as engine:
        await set_manifest(engine, manifest())
        position = engine.view.position
        async with checking(engine, collateral(number=9)) as checks:
            with pytest.raises(QuoteRefusedError):
                await checks.verify(bent)
        assert engine.view.position == position
        assert not engine.view.running.collateral_marks


async def test_without_a_manifest_quotes_verify_and_nothing_is_kept(tmp_path: Path) -> None:
    async with running_engine(tmp_path / "state") as engine:
        async with checking(engine, collateral()) as checks:
            await checks.verify(QUOTE)
        assert engine.view.phase is Phase.ACCEPTING_MANIFEST
        assert engine.view.position is None


async def _ready(_keys: CoordinatorKeys) -> Callable[[], None]:
    return lambda: None


async def test_older_collateral_is_refused_after_a_recovery_and_after_a_full_update(
    tmp_path: Path,
) -> None:
    data, (holder,) = tmp_path / "state", holders(1)
    async with running_engine(data) as engine:
        await set_manifest(engine, recoverable([holder]))
        share = holder.share(engine.view.running.recovery.holders[0].ciphertext)
        async with checking(engine, collateral()) as checks:
            await checks.verify(QUOTE)
        marks = engine.view.running.collateral_marks
        assert marks
    (data / "sealed_key").unlink()
    async with running_engine(data) as engine:
        assert engine.view.phase is Phase.RECOVERY
        submission = SubmittedShare(holder.name, Secret(share), holder.sign(share))
        await engine.queue.add_recovery(Recovery(Secret(share), (submission,), _ready))
        await _only_as_new_as(engine, marks)
        state, raw = engine.view.running, recoverable([holder], secrets=4)
        update = prepare_update(state, SentUpdate(user("admin").der, raw), now=engine.current.now())
        assert (await engine.submit(update)).running.manifest == raw
        await _only_as_new_as(engine, marks)
    async with running_engine(data) as engine:
        assert engine.view.running.manifest == raw
        await _only_as_new_as(engine, marks)


async def _only_as_new_as(engine: Engine, marks: Mapping[str, Mark]) -> None:
    assert engine.view.running.collateral_marks == marks
    async with checking(engine, collateral(number=4)) as checks:
        with pytest.raises(CollateralUnavailableError, match=r"root-crl .*\b4\b"):
            await checks.verify(QUOTE)
    async with checking(engine, collateral()) as checks:
        await checks.verify(QUOTE)
