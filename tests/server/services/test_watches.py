"""The streams of running workloads: what each message costs, and when a stream ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from support.cosigner import Cosigner
from support.living.renewal import Living, living
from support.living.streams import Streams, put, watched_manifest
from support.samples.activation import Deployment
from support.samples.deployment import FixedClock, user
from support.samples.replicas import begin, engine_on
from support.samples.simulated_store import Database, SimulatedStore
from support.samples.simulated_time import in_simulated_time, until_idle

from keyhouse.base.errors import ConflictError
from keyhouse.coordinator import ReadGate, SentUpdate, prepare_update
from keyhouse.coordinator.core.commands import InitiateUpdate, RevokeWorkloads, UpdatePackages
from keyhouse.coordinator.core.events import Scope
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.server.services.digests import Inputs
from keyhouse.server.services.watches import QUIET, STREAMS, Advice

MINUTE = 60 * 1_000_000


@asynccontextmanager
async def streams(
    path: Path, raw: bytes | None = None, clock: FixedClock | None = None
) -> AsyncIterator[Streams]:
    """Run a deployment with an uploaded secret."""
    async with replicas(path, 1, raw or manifest(), clock) as (found,):
        yield found.streams


class Replica(NamedTuple):
    """A coordinator with its store."""

    streams: Streams
    store: SimulatedStore


@asynccontextmanager
async def replicas(
    path: Path, count: int, raw: bytes, clock: FixedClock | None = None
) -> AsyncIterator[list[Replica]]:
    """Run ``count`` replicas, where the secret has a value."""
    database = Database()
    await begin(SimulatedStore(database), raw)
    stores = [SimulatedStore(database) for _ in range(count)]
    async with AsyncExitStack() as stack:
        found = []
        for number, store in enumerate(stores):
            opened = engine_on(store, path / str(number), clock=clock)
            engine = await stack.enter_async_context(opened)
            await until_idle()
            gate = ReadGate(engine)
            deployed = Living(Deployment(engine, simulated=False, gate=gate), engine, gate)
            found.append(Replica(Streams(deployed), store))
            stack.callback(deployed.opened.close)
            stack.callback(deployed.close)
            stack.callback(found[-1].streams.watches.close)
        state = found[0].streams.deployed.engine.view.running
        if policy_of(state.manifest).manifest.config.transparency is None:
            await put(found[0].streams.deployed.engine, b"first")
        yield found


def manifest(**config: object) -> bytes:
    """Return the manifest with ``config``, for stores without a key of a machine."""
    return watched_manifest(Config={"SealMode": "Disabled", **config})


async def revoke(deployed: Living, scope: Scope, marble_type: str = "", name: str = "") -> None:
    await deployed.engine.submit(
        RevokeWorkloads(user("admin").der, scope, marble_type, name, b"", "test")
    )


async def update(deployed: Living, raw: bytes) -> None:
    sent = SentUpdate(user("admin").der, raw)
    command = prepare_update(deployed.engine.view.running, sent, now=deployed.engine.current.now())
    assert isinstance(command, InitiateUpdate | UpdatePackages)
    await deployed.engine.submit(command)


async def settled() -> None:
    """Let the task of the streams work."""
    for _ in range(8):
        await until_idle()


@in_simulated_time
async def test_one_upload_is_one_message_for_all(tmp_path: Path) -> None:
    """The digests are made once, and the bytes of the message, too."""
    async with streams(tmp_path) as opened:
        deployed = opened.deployed
        workloads = [await deployed.activate() for _ in range(5)]
        for each in workloads:
            await each.renew()
        all_streams = [await opened.open(each) for each in workloads for _ in range(2)]
        await put(deployed.engine, b"second")
        await settled()
        assert len(opened.sent) == 1
        (notice,) = opened.sent
        assert (notice.advice, notice.spread_ms) == (Advice.NONE, 5)
        for stream in all_streams:
            assert stream.notices[1:] == [notice]
            assert stream.notices[0].digests.files != notice.digests.files
        served = await workloads[0].fetch()
        assert served.digests is notice.digests
        assert opened.watches.messages == 10


@in_simulated_time
async def test_activations_and_renewals_of_others_are_no_message(tmp_path: Path) -> None:
    async with streams(tmp_path) as opened:
        workload = await opened.deployed.activate()
        await workload.renew()
        stream = await opened.open(workload)
        before = Inputs.of(opened.deployed.engine.view.running, 0)
        other = await opened.deployed.activate()
        for _ in range(3):
            await other.renew()
        await put(opened.deployed.engine, b"first")  # the same value
        await settled()
        assert not opened.sent
        assert not stream.code
        assert Inputs.of(opened.deployed.engine.view.running, 0).equals(before) is False


@in_simulated_time
async def test_workloads_of_a_type_have_equal_digests_and_secrets_of_their_own(
    tmp_path: Path,
) -> None:
    async with streams(tmp_path) as opened:
        one, two = [await opened.deployed.activate() for _ in range(2)]
        await one.renew()
        await two.renew()
        first, second = await one.fetch(), await two.fetch()
        assert first.digests == second.digests
        assert first.present.files["/note"] != second.present.files["/note"]
        before = first.digests
        rotated = manifest(RotateRootSecret=True)
        await update(opened.deployed, rotated)
        await one.renew()
        after = (await one.fetch()).digests
        assert after.files != before.files


@in_simulated_time
async def test_a_quiet_stream_has_a_message_each_minute_until_its_certificate_ends(
    tmp_path: Path,
) -> None:
    clock = FixedClock()
    async with streams(tmp_path, clock=clock) as opened:
        workload = await opened.deployed.activate()
        await workload.renew()
        stream = await opened.open(workload)
        for minute in range(1, 4):
            clock.let_pass(MINUTE)
            await asyncio.sleep(QUIET + 1)
            assert len(stream.notices) == 1 + minute
            assert stream.notices[-1].digests == stream.notices[0].digests
            assert stream.notices[-1].now == clock.time
        clock.let_pass(60 * MINUTE)
        await asyncio.sleep(QUIET + 1)
        assert stream.code == "renew-first"
        assert len(opened.watches) == 0


@in_simulated_time
async def test_the_end_of_a_certificate_is_exact(tmp_path: Path) -> None:
    clock = FixedClock()
    async with streams(tmp_path, clock=clock) as opened:
        workload = await opened.deployed.activate()
        given = await workload.renew()
        clock.let_pass(given.end - given.now - MINUTE // 4)
        stream = await opened.open(workload)
        clock.let_pass(MINUTE // 4)
        await asyncio.sleep(QUIET / 4 + 2)
        assert (stream.code, len(stream.notices)) == ("renew-first", 1)


@in_simulated_time
async def test_a_former_root_ends_by_the_clock(tmp_path: Path) -> None:
    clock = FixedClock()
    overlap = {"Trust": {"OverlapHours": 1}}
    async with streams(tmp_path, manifest(**overlap), clock) as opened:
        workload = await opened.deployed.activate()
        changed = manifest(Trust={"OverlapHours": 2})
        await update(opened.deployed, changed)
        await workload.renew()
        clock.let_pass(90 * MINUTE)
        await workload.renew()
        stream = await opened.open(workload)
        clock.let_pass(31 * MINUTE)
        await asyncio.sleep(2)
        assert len(stream.notices) == 2
        first, second = (each.digests for each in stream.notices)
        assert first.trust != second.trust
        assert first.files == second.files


@in_simulated_time
async def test_an_update_asks_each_stream_for_a_renewal_and_ends_it(tmp_path: Path) -> None:
    async with streams(tmp_path) as opened:
        workload = await opened.deployed.activate()
        await workload.renew()
        stream = await opened.open(workload)
        raised = b'{"Packages": {"app": {"SecurityVersion": 3}}}'
        await update(opened.deployed, raised)
        await settled()
        last = stream.notices[-1]
        assert (last.advice, last.spread_ms, stream.code) == (Advice.RENEW, 10, "renew-first")
        assert last.digests.certificate != stream.notices[0].digests.certificate


@in_simulated_time
async def test_a_type_that_loses_renewal_ends_its_streams(tmp_path: Path) -> None:
    async with streams(tmp_path) as opened:
        workload = await opened.deployed.activate()
        await workload.renew()
        stream = await opened.open(workload)
        await update(opened.deployed, manifest().replace(b'"Renewal": {}, ', b""))
        await settled()
        assert (stream.code, len(stream.notices)) == ("not-enabled", 1)


@in_simulated_time
async def test_revocations_end_the_streams_that_they_concern(tmp_path: Path) -> None:
    async with streams(tmp_path) as opened:
        deployed = opened.deployed
        one, two = [await deployed.activate() for _ in range(2)]
        await one.renew()
        await two.renew()
        first, second = await opened.open(one), await opened.open(two)
        await revoke(deployed, Scope.WORKLOAD, "web", one.marble)
        await settled()
        assert (first.code, second.code) == ("revoked", "")
        await revoke(deployed, Scope.TYPE, "web")
        await settled()
        assert second.code == "renew-first"
        assert second.notices[-1].advice is Advice.RENEW


@in_simulated_time
async def test_a_renewal_ends_the_streams_of_the_former_key(tmp_path: Path) -> None:
    async with streams(tmp_path) as opened:
        workload, other = [await opened.deployed.activate() for _ in range(2)]
        await workload.renew()
        await other.renew()
        stream, kept = await opened.open(workload), await opened.open(other)
        await workload.renew()
        await settled()
        assert (stream.code, kept.code) == ("outdated-connection", "")


@in_simulated_time
async def test_a_workload_has_two_streams(tmp_path: Path) -> None:
    async with streams(tmp_path) as opened:
        workload = await opened.deployed.activate()
        await workload.renew()
        made = [await opened.open(workload) for _ in range(STREAMS + 1)]
        assert [each.code for each in made] == ["unavailable", "", ""]
        assert len(opened.watches) == STREAMS


@in_simulated_time
async def test_a_stream_that_begins_beside_a_change_misses_nothing(tmp_path: Path) -> None:
    """The first message may be of the view before; the change then follows at once."""
    async with streams(tmp_path) as opened:
        deployed = opened.deployed
        workload, other = [await deployed.activate() for _ in range(2)]
        await workload.renew()
        await other.renew()
        await opened.open(other)
        watched = await deployed.renewals.watch(workload.certificate)
        await put(deployed.engine, b"second")
        await settled()
        revoked = await deployed.renewals.watch(other.certificate)
        await revoke(deployed, Scope.WORKLOAD, "web", other.marble)
        await settled()

        class Late(list[bytes]):
            """A feed."""

            code = ""

            def push(self, message: bytes) -> None:
                self.append(message)

            def end(self, error: Exception) -> None:
                self.code = getattr(error, "code", "")

        late, ended = Late(), Late()
        opened.watches.begin(watched, late)
        opened.watches.begin(revoked, ended)()
        await settled()
        assert ended.code == "revoked"
        (message,) = late
        served = await workload.fetch()
        assert opened.sent[int(message)].digests == served.digests != watched.digests


# Leases and replicas.


WITNESS = Cosigner.ed25519()


@in_simulated_time
async def test_streams_end_with_the_lease(tmp_path: Path) -> None:
    policy = f"witness W {WITNESS.verifier} https://w.example\nquorum W\n"
    rules = {"Witnesses": policy, "Serve": "Witnessed"}
    async with replicas(tmp_path, 1, manifest(Transparency=rules)) as (found,):
        opened, engine = found.streams, found.streams.deployed.engine
        log = engine.view.running.public_log
        assert log is not None
        engine.lease.on_quorum(log.frontier.size, b"a checkpoint")
        await put(engine, b"first")
        workload = await opened.deployed.activate()
        await workload.renew()
        stream = await opened.open(workload)
        await asyncio.sleep(3)
        assert len(opened.watches) == 1
        engine.lease.on_refusal("forked", lasting=True)
        await asyncio.sleep(3)
        assert stream.code == "held"
        assert stream.notices[-1].advice is Advice.GO_ELSEWHERE


@in_simulated_time
async def test_changes_at_one_replica_reach_the_streams_of_another(tmp_path: Path) -> None:
    async with replicas(tmp_path, 2, manifest()) as both:
        first, second = (each.streams for each in both)
        workload, other = [await first.deployed.activate() for _ in range(2)]
        await workload.renew(second.deployed.renewals)
        await other.renew(second.deployed.renewals)
        stream, kept = await first.open(workload), await first.open(other)
        await put(second.deployed.engine, b"second")
        await settled()
        assert len(stream.notices) == 2
        served = await workload.fetch(second.deployed.renewals)
        assert stream.notices[-1].digests == served.digests
        await workload.renew(second.deployed.renewals)
        await settled()
        assert (stream.code, kept.code) == ("outdated-connection", "")
        await revoke(second.deployed, Scope.WORKLOAD, "web", other.marble)
        await settled()
        assert kept.code == "revoked"


@in_simulated_time
async def test_streams_end_where_the_store_confirms_no_view(tmp_path: Path) -> None:
    async with replicas(tmp_path, 2, manifest()) as both:
        first, second = (each.streams for each in both)
        workload = await first.deployed.activate()
        await workload.renew()
        stream, kept = await first.open(workload), await second.open(workload)
        await asyncio.sleep(30)
        assert (stream.code, kept.code) == ("", "")
        both[0].store.down = True
        await asyncio.sleep(30)
        assert (stream.code, kept.code) == ("store-unreadable", "")
        assert stream.notices[-1].advice is Advice.GO_ELSEWHERE


async def test_a_missing_secret_is_not_remembered(tmp_path: Path) -> None:
    async with living(tmp_path, watched_manifest()) as deployed:
        now = deployed.engine.current.now()
        for _ in range(2):
            inputs = Inputs.of(deployed.engine.view.running, now)
            with pytest.raises(ConflictError, match="note"):
                await deployed.renewals.digests.of(inputs, "web", now)
        await put(deployed.engine, b"first")
        inputs = Inputs.of(deployed.engine.view.running, now)
        found = await deployed.renewals.digests.of(inputs, "web", now)
        assert len(found.files) == 16
