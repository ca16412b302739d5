"""What a workload is shown in the handshake by a replica that has not followed another one yet."""

import asyncio
import ssl
from pathlib import Path

import pytest
from support.samples.activation import Deployment, marble_manifest
from support.samples.deployment import user
from support.samples.replicas import begin, engine_on
from support.samples.simulated_store import Database, SimulatedStore
from support.samples.updates import raise_version

from keyhouse.coordinator import ReadGate, SentUpdate, UpdatePackages, prepare_update
from keyhouse.server.workload_api.listener import WorkloadListener


async def shown(port: int, folder: Path) -> bytes:
    """Return the certificate, DER, that the workload API shows to who connects."""
    (folder / "user.pem").write_bytes(user("ann").pem + user("ann").key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(folder / "user.pem")
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    assert isinstance(found, bytes)
    return found


async def test_a_lagging_replica_shows_no_marble_root_that_was_replaced(tmp_path: Path) -> None:
    database = Database()
    await begin(SimulatedStore(database), marble_manifest(Config={"SealMode": "Disabled"}))
    late = SimulatedStore(database)
    async with (
        engine_on(SimulatedStore(database), tmp_path / "a") as one,
        engine_on(late, tmp_path / "b") as other,
    ):
        opened = Deployment(other)
        gate = ReadGate(other)
        listener = WorkloadListener(other, opened.activations.activate, simulated=True, gate=gate)
        await listener.start("127.0.0.1", 0)
        try:
            late.deaf = True
            before = await shown(listener.port, tmp_path)
            raw = raise_version(3)
            command = prepare_update(
                one.view.running, SentUpdate(user("admin").der, raw), now=one.current.now()
            )
            assert isinstance(command, UpdatePackages)
            await one.submit(command)
            assert other.view.running.keys.marble_root_cert == before
            after = await shown(listener.port, tmp_path)
            assert after == one.view.running.keys.marble_root_cert != before
            late.down = True
            with pytest.raises(OSError):
                await shown(listener.port, tmp_path)
        finally:
            await listener.stop(1)
            opened.close()
