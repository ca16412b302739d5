"""An old copy of a state, from before users admitted the host's code by mistake.

The mistake gives the data key to the host. Then the host puts the copy back.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from keyhouse import authority
from keyhouse.base.secret import Secret
from keyhouse.client import FileMemory, StateMemory, TrustedCoordinator
from keyhouse.client.trust import verify
from keyhouse.manifest import fingerprint
from keyhouse_simulation import COORDINATOR
from support.host.copies import DatabaseCopy, state_in
from support.host.enclave import ADMITTED, HostEnclave
from support.peers.postgres import PostgresServer
from support.peers.replicas import Replicas
from support.peers.sdk import trust_in_server
from support.process.server import Server
from support.samples.deployment import user
from support.samples.updates import Api, together

__all__ = ["USERS", "OldCopy", "agreed", "agreed_with_host", "old_copy"]

USERS = ("alice", "bob")
_OWN_CODE = {"UniqueID": COORDINATOR.unique_id.hex()}


class OldCopy(NamedTuple):
    """The restored copy, and the host's knowledge."""

    enclave: HostEnclave
    genuine: Server  # has ended
    url: Secret
    store_id: bytes
    dek: Secret
    true: bytes  # the manifest of the copy
    memory: FileMemory  # of a client that verified the manifest with the mistake

    def is_served(self, manifest: bytes) -> bool:
        """Return whether the running coordinator enforces ``manifest``."""
        with self.genuine.client() as client:
            found = client.get("/api/v2/manifest").data["manifestFingerprint"]
        return bool(found == fingerprint(manifest))

    def verified(self, memory: StateMemory | None = None, **trust: Any) -> TrustedCoordinator:
        """Verify the coordinator as a client with ``true`` as the only first manifest."""
        return _verified(self.genuine, memory, first_manifest=self.true, manifests="all", **trust)

    def host_has_key_of(self, root_der: bytes) -> bool:
        """Return whether the host can sign for the root certificate ``root_der``."""
        keys = state_in(self.url, self.store_id, self.dek).running.keys
        signature = authority.sign_manifest(keys, b"{}")
        return authority.is_signed_by_root(root_der, signature, b"{}")


def agreed(word: str, *code: dict[str, str], **config: Any) -> bytes:
    """Return a manifest for changes by both users together; ``code`` is admitted as well."""
    replicas = {"Code": (_OWN_CODE, *code)}
    return together(updaters=USERS, word=word, SealMode="UniqueKey", Replicas=replicas, **config)


def agreed_with_host(**config: Any) -> bytes:
    """Return this manifest with the host's code among the admitted code."""
    return agreed("admits the host", ADMITTED, **config)


@contextmanager
def old_copy(
    postgres: PostgresServer,
    folder: Path,
    true: bytes,
    mistake: bytes,
    settle: Callable[[Server], None] = lambda _: None,
) -> Iterator[OldCopy]:
    """Copy the state under ``true``; restore the copy after an update to ``mistake``.

    ``mistake`` admits the host. ``settle`` waits until a new manifest is in force for all purposes.
    """
    name = asyncio.run(postgres.database())
    replicas, memory = Replicas(folder, postgres.url(name)), FileMemory(folder / "memory")
    try:
        (genuine,) = replicas.founded(1, true)
        settle(genuine)
        genuine.stop()
        old = DatabaseCopy(postgres, name, genuine)
        genuine.start()
        settle(genuine)
        with genuine.client(user("alice")) as alice, genuine.client(user("bob")) as bob:
            assert Api(2).update(alice, mistake).status == 200
            assert Api(2).acknowledge(bob, mistake).status == 200
        settle(genuine)
        _verified(genuine, memory)
        enclave = HostEnclave(folder / "enclave", genuine.data / "simulation")
        store_id, dek = enclave.take(postgres.url(name))
        genuine.kill()
        old.put_back()
        yield OldCopy(enclave, genuine, postgres.url(name), store_id, dek, true, memory)
    finally:
        replicas.end()


def _verified(server: Server, memory: StateMemory | None, **trust: Any) -> TrustedCoordinator:
    expected = replace(trust_in_server(server), **trust)
    return verify(f"127.0.0.1:{server.port}", expected, memory)
