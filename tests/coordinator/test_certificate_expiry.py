"""Certificates that end soon are logged once for each manifest; counts of the engine."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from support.captured_log import capture_logs
from support.samples.deployment import NOW, moment, running_engine, set_manifest, upload, user
from support.samples.expiry import certificate_until, manifest_with

from keyhouse.authority import expiry
from keyhouse.base.errors import BrokenError, ForbiddenError, UnavailableError
from keyhouse.base.histogram import Tally
from keyhouse.coordinator import Running, StaleError, prepare_upload, user_expiry, warn_of_expiry
from keyhouse.coordinator.certificate_expiry import MOST_NAMED, NOTICE_DAYS, secret_expiry
from keyhouse.coordinator.engine.work_queue import EngineCounts
from keyhouse.wire.secret_types import UserSecret

SOON = moment(NOW) + timedelta(days=NOTICE_DAYS)
SECOND = timedelta(seconds=1)


async def running(path: Path, raw: bytes, uploads: Mapping[str, bytes] | None = None) -> Running:
    """Return the state of a deployment; ``uploads`` are certificates (DER) by secret."""
    async with running_engine(path / "state") as engine:
        await set_manifest(engine, raw)
        for name, der in (uploads or {}).items():
            given = {name: UserSecret(cert=der)}
            await engine.submit(prepare_upload(engine.view.running, user("writer").der, given))
    return engine.view.running


def told(state: Running) -> Sequence[tuple[str, object]]:
    with capture_logs() as entries:
        warn_of_expiry(state, NOW)
    assert {entry["log_level"] for entry in entries} <= {"warning"}
    named = ("user", "secret", "count")
    return [(entry["event"], next(entry[n] for n in named if n in entry)) for entry in entries]


async def test_certificate_that_ends_within_the_notice_is_told_and_a_later_one_is_not(
    tmp_path: Path,
) -> None:
    ends = {"early": SOON - SECOND, "late": SOON, "over": moment(NOW) - SECOND}

    assert told(await running(tmp_path, manifest_with(ends))) == [
        ("the certificate of a user has expired", '"over"'),
        ("the certificate of a user expires soon", '"early"'),
    ]


async def test_certificates_of_secrets_are_told_too(tmp_path: Path) -> None:
    made = {"Type": "cert-ecdsa", "Size": 256, "Shared": True}
    uploaded = {"Type": "cert-ecdsa", "Size": 256, "UserDefined": True}
    secrets = {
        "brief": {**made, "ValidFor": NOTICE_DAYS - 1},
        "long": made,
        "own": {**uploaded},
        "missing": {**uploaded},
        "each": {"Type": "cert-ecdsa", "Size": 256, "ValidFor": 1},
    }
    over = certificate_until(moment(NOW) - SECOND).public_bytes(Encoding.DER)

    state = await running(tmp_path, manifest_with({}, secrets), {"own": over})

    assert secret_expiry(state).keys() == {"brief", "long", "own"}
    assert told(state) == [
        ("the certificate of a secret has expired", '"own"'),
        ("the certificate of a secret expires soon", '"brief"'),
    ]


async def test_of_many_users_the_first_to_end_are_named_and_the_others_counted(
    tmp_path: Path,
) -> None:
    many = {f"user{number}": moment(NOW) - number * SECOND for number in range(1, MOST_NAMED + 6)}

    lines = told(await running(tmp_path, manifest_with(many)))

    assert lines[0][1] == f'"user{MOST_NAMED + 5}"'
    assert lines[MOST_NAMED:] == [("more certificates of users have expired or expire soon", 5)]


def test_ends_of_all_users_are_in_seconds() -> None:
    ends = user_expiry(manifest_with({"ann": SOON}))

    assert ends["ann"] == int(SOON.timestamp())
    assert ends["writer"] == expiry(user("writer").der)


@pytest.mark.parametrize("year", [1970, 2038, 2050, 9999])
def test_every_end_that_a_certificate_can_have_is_read(year: int) -> None:
    end = SOON.replace(year=year)

    assert expiry(certificate_until(end).public_bytes(Encoding.DER)) == int(end.timestamp())


def test_what_is_not_a_certificate_has_no_end() -> None:
    assert expiry(b"") is None
    assert expiry(b"0\x82") is None


async def test_engine_tells_it_when_a_manifest_is_set_and_again_at_the_next_start(
    tmp_path: Path,
) -> None:
    raw = manifest_with({"ann": SOON - SECOND})
    told_of_ann: list[int] = []
    for _ in range(2):
        with capture_logs() as entries:
            async with running_engine(tmp_path / "state") as engine:
                if not told_of_ann:
                    await set_manifest(engine, raw)
                await upload(engine, {"key0": bytes(16)})
                await upload(engine, {"key0": bytes(16)})
        told_of_ann.append(sum(entry.get("user") == '"ann"' for entry in entries))

    assert told_of_ann == [1, 1]


async def test_engine_counts_what_becomes_of_changes(tmp_path: Path) -> None:
    async with running_engine(tmp_path / "state") as engine:
        await set_manifest(engine, manifest_with({}))
        uploads = [upload(engine, {f"key{number}": bytes(16)}) for number in range(3)]
        await asyncio.gather(*uploads)
        counts = engine.queue.counts

    assert counts.changes["accepted"] == 4
    assert counts.batch.total == 4
    assert sum(counts.batch.counts) == sum(counts.commit.counts)
    assert 2 <= sum(counts.commit.counts) <= 4
    assert counts.commit.total > 0


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ForbiddenError("no"), "refused"),
        (StaleError("moved on"), "stale"),
        (UnavailableError("full"), "unavailable"),
        (BrokenError("unknown"), "broken"),
        (asyncio.CancelledError(), "broken"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_each_error_is_one_outcome(error: BaseException, outcome: str) -> None:
    counts = EngineCounts()
    counts.failed(error)

    assert [name for name, count in counts.changes.items() if count] == [outcome]


def test_tally_counts_a_value_at_its_bound() -> None:
    tally = Tally((1, 2))
    for value in (0, 1, 1.5, 2, 3):
        tally.add(value)

    assert list(tally.cumulative()) == [(1, 2), (2, 4), (float("inf"), 5)]
    assert tally.total == 7.5
