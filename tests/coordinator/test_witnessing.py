"""Anchors with waiting callers while a witness does not answer."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from support.cosigner import Cosigner
from support.samples.deployment import manifest
from support.samples.replicas import begin, engine_on
from support.samples.simulated_store import Database, SimulatedStore
from support.samples.simulated_time import in_simulated_time

from keyhouse.coordinator.witnessing.task import EXTRA_SECONDS, HURRIED_EXTRA_SECONDS, Witnessing
from keyhouse.manifest import Anchored
from keyhouse.transparency.note import SignedNote
from keyhouse.transparency.policy import Witness
from keyhouse.witnesses.answers import Cosigned, WitnessAnswer

COSIGNERS = {f"W{number}": Cosigner.ed25519(f"w{number}.example") for number in range(3)}
MUTE = "W2"
ANCHORS = 9


class Peers:
    """Witnesses that cosign at once, except ``MUTE``."""

    async def add_checkpoint(
        self, witness: Witness, old: int, proof: Sequence[bytes], note: bytes
    ) -> WitnessAnswer:
        del old, proof
        if witness.name == MUTE:
            await asyncio.Event().wait()
        return Cosigned(COSIGNERS[witness.name].line(SignedNote.read(note).text).encode())


@asynccontextmanager
async def peers() -> AsyncIterator[Peers]:
    yield Peers()


def policy() -> str:
    lines = [
        f"witness {name} {each.verifier} https://{name.lower()}.example"
        for name, each in COSIGNERS.items()
    ]
    return "\n".join((*lines, f"group Q 2 {' '.join(COSIGNERS)}", "quorum Q", ""))


@in_simulated_time
async def test_a_mute_witness_keeps_no_anchor_waiting(tmp_path: Path) -> None:
    store = SimulatedStore(Database())
    rules = {"Witnesses": policy(), "AnchorBefore": ["Counters"]}
    await begin(store, manifest(3, SealMode="Disabled", Transparency=rules))
    async with engine_on(store, tmp_path) as engine:
        running = asyncio.create_task(Witnessing(engine, peers).run())
        began = asyncio.get_running_loop().time()
        for _ in range(ANCHORS):
            assert await engine.lease.anchor(Anchored.COUNTERS)
        took = asyncio.get_running_loop().time() - began
        assert took < ANCHORS * 2 * HURRIED_EXTRA_SECONDS < EXTRA_SECONDS
        running.cancel()
        await asyncio.wait([running])
