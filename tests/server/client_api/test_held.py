"""What waits for a body is judged by the lease when that is complete, and counts once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from support.cosigner import Cosigner
from support.peers.client_api import replica_of, said
from support.samples.deployment import user
from support.samples.replicas import begin, engine_on
from support.samples.simulated_store import Database, SimulatedStore
from support.samples.updates import together

from keyhouse.coordinator import Engine
from keyhouse.server.http.exchange import Admission, Answer, Application, Deferred, Head

MOST = 4
HEAD = Head("POST", "/api/v2/secrets", b"", user("writer").der)
BODY = b'{"secrets": {"note": {"key": "eA=="}}}'


@asynccontextmanager
async def served(path: Path) -> AsyncIterator[tuple[Engine, Application]]:
    """Have a replica that witnesses let serve ``MOST`` operations."""
    policy = f"witness W {Cosigner.ed25519().verifier} https://w.example\nquorum W\n"
    rules = {"Witnesses": policy, "Serve": "Witnessed", "LeaseOperations": MOST}
    database = Database()
    raw = together(
        lambda _: None, updaters=["alice"], UpdateThreshold=1, SealMode="Disabled",
        Transparency=rules,
    )  # fmt: skip
    await begin(SimulatedStore(database), raw)
    async with engine_on(SimulatedStore(database), path) as engine:
        log = engine.view.running.public_log
        assert log is not None
        engine.lease.on_quorum(log.frontier.size, b"a checkpoint")
        with replica_of(engine) as api:
            yield engine, api


async def admitted(api: Application) -> Answer | Admission:
    verdict = api.admit(HEAD)
    return await said(verdict) if isinstance(verdict, Deferred) else verdict


async def answered(verdict: Answer | Admission) -> int:
    if isinstance(verdict, Admission):
        outcome = verdict.run(BODY)
        verdict = outcome if isinstance(outcome, Answer) else await outcome
    return verdict.status


async def test_each_upload_is_one_operation(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, api):
        found = [await answered(await admitted(api)) for _ in range(MOST + 1)]
    assert found == [200] * MOST + [503]


async def test_nothing_is_done_whose_lease_ended_while_the_body_came(tmp_path: Path) -> None:
    async with served(tmp_path) as (engine, api):
        before = engine.view
        waiting = await admitted(api)
        assert isinstance(waiting, Admission)
        engine.lease.on_refusal("forked", lasting=True)
        assert await answered(waiting) == 503
        assert engine.view is before
