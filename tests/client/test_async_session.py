"""What only a session on an event loop has to hold: many calls at a time, and being cancelled."""

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from support.peers.peer import Peer, certify, serving, success
from support.peers.sdk import trust_in_peer

from keyhouse.client import NO_RETRIES, AsyncCoordinator, FileMemory, TrustError, UnreachableError

MANIFEST = b'{"Packages": {}}'


def peer() -> Peer:
    """Return a peer whose manifest is set, with one share."""
    found = Peer.new()
    found.replies["GET", "/api/v2/status"] = success({"code": 3})
    found.replies["POST", "/api/v2/manifest"] = success({"RecoverySecrets": {"rk": b"share"}})
    found.replies["GET", "/api/v2/manifest"] = success(
        {
            "manifestSignatureRootECDSA": found.root.key.sign(MANIFEST, ec.ECDSA(hashes.SHA256())),
            "manifestFingerprint": hashlib.sha256(MANIFEST).hexdigest(),
            "manifest": MANIFEST,
        }
    )
    return found


@asynccontextmanager
async def session(served: Peer, folder: Path) -> AsyncIterator[AsyncCoordinator]:
    memory = FileMemory(folder / "memory")
    with serving(served, folder) as address:
        async with AsyncCoordinator.connect(
            address, trust_in_peer(served), memory=memory, timeout=20
        ) as coordinator:
            yield coordinator


async def test_many_calls_run_at_a_time(tmp_path: Path) -> None:
    async with session(peer(), tmp_path) as coordinator:
        found = await asyncio.gather(*(coordinator.status() for _ in range(30)))
    assert {status.code for status in found} == {3}


async def test_who_is_cancelled_while_shares_are_kept_still_keeps_them(tmp_path: Path) -> None:
    begun, may_end = threading.Event(), threading.Event()
    kept: list[Mapping[str, bytes]] = []

    def keep(shares: Mapping[str, bytes]) -> None:
        begun.set()
        may_end.wait()
        kept.append(shares)

    served = peer()
    served.extra_headers["Keyhouse-State"] = "1.2.0123456789abcdef"
    async with session(served, tmp_path) as coordinator:
        task = asyncio.create_task(coordinator.set_manifest(MANIFEST, keep))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert kept == [{"rk": b"share"}]
        assert (await coordinator.status()).code == 3


async def test_who_is_cancelled_while_the_coordinator_stalls_is_free_at_once(
    tmp_path: Path,
) -> None:
    stalled, served = threading.Event(), peer()
    async with session(served, tmp_path) as coordinator:
        served.faults.append(stalled)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await coordinator.status()
        stalled.set()
        assert (await coordinator.status()).code == 3


@pytest.mark.parametrize("who", ["workload with chain", "workload alone", "twin"])
async def test_another_certificate_under_the_same_root_hears_nothing(
    tmp_path: Path, who: str
) -> None:
    served = peer()
    async with session(served, tmp_path) as coordinator:
        trusted = coordinator.trusted
    workload = certify("Root", served.intermediate, is_ca=False)
    served.served = {
        "workload with chain": (workload, served.intermediate, served.root),
        "workload alone": (workload,),
        "twin": (certify("Root", served.root), served.root),
    }[who]
    heard = len(served.requests)
    with serving(served, tmp_path) as elsewhere:
        moved = msgspec.structs.replace(trusted, address=elsewhere)
        async with AsyncCoordinator(moved, retries=NO_RETRIES) as coordinator:
            with pytest.raises(TrustError):
                await coordinator.set_manifest(MANIFEST)
    assert served.requests[heard:] == []


async def test_a_coordinator_that_is_gone_is_unreachable(tmp_path: Path) -> None:
    served = peer()
    async with session(served, tmp_path) as coordinator:
        trusted = coordinator.trusted
    async with AsyncCoordinator(trusted, retries=NO_RETRIES) as coordinator:
        with pytest.raises(UnreachableError) as caught:
            await coordinator.set_manifest(MANIFEST)
    assert not caught.value.sent
