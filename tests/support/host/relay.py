"""A host with the root key of a genuine coordinator answers in place of this coordinator."""

import http.client
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from keyhouse import authority
from keyhouse.authority.keys import CoordinatorKeys, certificate_of, private_key_of
from keyhouse.client import Address
from keyhouse.manifest import fingerprint
from keyhouse_simulation import SimulatedPlatform, make_machine
from support.peers.peer import Certified, Peer, Reply, serving, success
from support.process.server import Server

__all__ = ["Relay", "relaying"]


@dataclass
class Relay(Peer):
    """Serves clients with the root key, and relays each GET without an own answer.

    ``hides_state``: the answers lack the header ``Keyhouse-State`` of the coordinator.
    """

    keys: CoordinatorKeys | None = None
    genuine: Server | None = None
    hides_state: bool = False
    relayed: list[str] = field(default_factory=list)

    def says(self, manifest: bytes) -> None:
        """Answer that ``manifest`` is in force, with a signature of the root."""
        assert self.keys is not None
        self.replies["GET", "/api/v2/manifest"] = success(
            {
                "manifest": manifest,
                "manifestFingerprint": fingerprint(manifest),
                "manifestSignatureRootECDSA": authority.sign_manifest(self.keys, manifest),
            }
        )

    def reply(self, method: str, target: str) -> Reply:
        """Return the own answer if one is set; otherwise the answer of the coordinator."""
        if (method, target.partition("?")[0]) in self.replies:
            return super().reply(method, target)
        assert self.genuine is not None
        self.relayed.append(target)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", self.genuine.port, context=context)
        try:
            connection.request(method, target)
            answer = connection.getresponse()
            state = answer.getheader("Keyhouse-State", "")
            self.extra_headers = {} if self.hides_state else {"Keyhouse-State": state}
            return answer.status, answer.read()
        finally:
            connection.close()


@contextmanager
def relaying(
    server: Server, keys: CoordinatorKeys, folder: Path
) -> Iterator[tuple[Relay, Address]]:
    """Serve a relay of ``server``; the host has the root key of ``keys``."""
    root = Certified(private_key_of(keys.root_key), certificate_of(keys.root_cert))
    platform = SimulatedPlatform(make_machine(datetime.now(UTC)))
    relay = Relay(platform, root, root, (root,), keys=keys, genuine=server)
    with serving(relay, folder) as address:
        yield relay, address
