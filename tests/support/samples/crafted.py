"""States that an attacker makes: complete journals and indexes under the attacker's keys."""

from pathlib import Path

import msgspec

from keyhouse.authority import (
    CoordinatorKeys,
    RecoveryIndex,
    RecoveryMaterial,
    index_of,
    make_coordinator_keys,
    recovery_index,
)
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.base import base_events
from keyhouse.coordinator.core.commands import SetManifest
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.decide import decide
from keyhouse.coordinator.core.evolve import evolve_all
from keyhouse.coordinator.core.state import AcceptingManifest, Running
from keyhouse.coordinator.core.update_log import UpdateLog
from keyhouse.coordinator.engine.records import encode_events
from keyhouse.coordinator.prepare import prepare_manifest
from keyhouse.journal import index_mac_key
from support.samples.deployment import NOW, moment, new_process, open_storage

EPOCH = 1


GONE = Secret(b"a machine that is gone, for ever")


class Made(msgspec.Struct):
    """An unwritten state with log, keys and index. Tests change the state before ``write``."""

    running: Running
    log: UpdateLog
    dek: Secret
    store_id: bytes
    signer: CoordinatorKeys  # signs the index
    index: RecoveryIndex

    def reindex(self, recovery: RecoveryMaterial | None = None) -> None:
        """Make the index from ``recovery``; None: from the state's recovery material."""
        self.index = index_of(
            recovery or self.running.recovery,
            self.signer,
            self.running.manifest,
            store_id=self.store_id,
            epoch=EPOCH,
        )

    async def write(
        self,
        path: Path,
        *,
        mac_key: Secret | None = None,
        machine: Secret = GONE,
        manifest: bytes | None = None,
    ) -> None:
        """Write the state to ``path``, sealed by ``machine``; the default is a lost machine.

        ``manifest`` replaces the manifest in the base, as no coordinator does.
        """
        base = [*base_events(self.running, self.log.view())]
        if manifest is not None:
            base[0] = msgspec.structs.replace(base[0], manifest=manifest)
        storage = await open_storage(path, machine)
        try:
            await storage.establish(
                store_id=self.store_id,
                dek=self.dek,
                base=encode_events(base),
                policy="ProductKey",
                recovery_index=recovery_index(
                    self.index,
                    keys=self.signer,
                    mac_key=mac_key or index_mac_key(self.dek, self.store_id, EPOCH),
                ),
            )
        finally:
            await storage.close()


def keys_of_a_root() -> CoordinatorKeys:
    """Return new keys for a coordinator."""
    return make_coordinator_keys(
        dns_names=("localhost",), ip_addresses=(), curve="P-256", now=moment(NOW), simulated=False
    )


def made(raw: bytes) -> Made:
    """Return the state after setting the manifest ``raw``."""
    accepting = AcceptingManifest(keys_of_a_root())
    command: SetManifest = prepare_manifest(accepting, raw, now=NOW)
    process = new_process()
    context = Context(
        now=NOW,
        platform=process.platform,
        instance=process.instance,
        version=process.version,
        measurement=process.measurement,
    )
    events = decide(accepting, command, context)
    running = evolve_all(None, events)
    assert isinstance(running, Running)
    crafted = Made(
        running=running,
        log=UpdateLog(events),
        dek=command.dek,
        store_id=command.store_id,
        signer=running.keys,
        index=RecoveryIndex(b"", 0, 0, (), b"", b""),
    )
    crafted.reindex()
    return crafted
