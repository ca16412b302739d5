"""Running workloads that renew their certificates, on a real engine without a transport."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from keyhouse.attestation import Measurements
from keyhouse.attestation.quote.binding import renewal_report_data
from keyhouse.coordinator import Engine, ReadGate
from keyhouse.server.services.quote_checks import QuoteChecks
from keyhouse.server.services.renewals import (
    Certificates,
    RenewalRequest,
    Renewals,
    Served,
    Session,
)
from support.samples.activation import (
    Deployment,
    collateral_for,
    deployment,
    marble_manifest,
    platform,
    quoted_request,
)
from support.samples.deployment import FixedClock, moment
from support.samples.signing_request import signing_request

__all__ = ["LIVING", "Living", "Workload", "enclave", "living", "living_manifest"]


def living_manifest(renewal: dict[str, Any] | None = None, **sections: Any) -> bytes:
    """Return a manifest with the renewable type ``web``; ``admin`` may revoke ``web``."""
    marble = {
        "Package": "app",
        "Renewal": renewal or {},
        "Parameters": {
            "Files": {"/token": "{{ hex .Secrets.token }}"},
            "Env": {"CHAIN": "{{ pem .MarbleRun.MarbleCert.Cert }}"},
            "Argv": ["web"],
        },
    }
    guard = {
        "ResourceType": "Marbles",
        "ResourceNames": ["web"],
        "Actions": ["RevokeWorkload"],
    }
    given: dict[str, Any] = {
        "Secrets": {"token": {"Type": "symmetric-key", "Size": 128, "Shared": True}},
        "Roles": {"guard": guard},
        **sections,
    }
    raw = marble_manifest({"web": marble, **sections.pop("marbles", {})}, **given)
    return raw.replace(b'"Roles": ["admin", "writer"]', b'"Roles": ["admin", "writer", "guard"]')


LIVING = living_manifest()


def enclave(isvsvn: int = 2) -> Measurements:
    """Return the enclave that the package of ``living_manifest`` admits."""
    return Measurements(
        unique_id=b"\x01" * 32,
        signer_id=bytes.fromhex("ab" * 32),
        product_id=7,
        security_version=isvsvn,
    )


class Workload:
    """A workload with the present certificate and the key of the next renewal."""

    def __init__(self, deployed: "Living", marble: str, certificate: bytes) -> None:
        self._deployed = deployed
        self.marble = marble
        self.certificate = certificate
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.session = Session()

    def copy(self) -> "Workload":
        """Return a thief's copy: the same certificate, with a new key for the next renewal."""
        return Workload(self._deployed, self.marble, self.certificate)

    async def renew(
        self, renewals: Renewals | None = None, *, keep: bool = True, isvsvn: int = 2
    ) -> Certificates:
        """Renew the certificate. If ``keep`` is false, the answer is lost on the way."""
        renewals = renewals or self._deployed.renewals
        csr = signing_request(key=self.key)
        nonce = await renewals.challenge(self.certificate, self.session)
        bound = renewal_report_data(csr, nonce, self.certificate)
        evidence = platform().workload_quote(enclave(isvsvn), bound)
        request = RenewalRequest(nonce, csr, evidence)
        given = await renewals.renew(request, self.certificate, self.session)
        if keep:
            self.certificate = given.chain[0]
            self.key = ec.generate_private_key(ec.SECP256R1())
        return given

    async def fetch(self, renewals: Renewals | None = None) -> Served:
        """Return the present parameters."""
        return await (renewals or self._deployed.renewals).serve(self.certificate)


class Living:
    """A running deployment with workloads that activate and renew."""

    def __init__(self, opened: Deployment, engine: Engine, gate: ReadGate | None = None) -> None:
        self.opened = opened
        self.engine = engine
        self.gate = gate
        self._checks = QuoteChecks(
            platform().root_ca, collateral_for, lambda: moment(engine.current.now())
        )
        self.renewals = Renewals(engine, self._checks, simulated=False, gate=gate)

    async def activate(self, marble_type: str = "web", marble: str = "") -> Workload:
        """Activate a workload with evidence; an empty ``marble`` means a random UUID."""
        marble = marble or str(uuid.uuid4())
        request = quoted_request(marble_type, marble=marble)
        given = await self.opened.join(marble_type, marble, quote=request.quote)
        pem = given.env["MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN"]
        leaf = x509.load_pem_x509_certificates(pem)[0]
        return Workload(self, marble, leaf.public_bytes(Encoding.DER))

    def close(self) -> None:
        """Release the threads."""
        self.renewals.close()
        self._checks.close()


@asynccontextmanager
async def living(
    path: Path, raw: bytes | None = LIVING, clock: FixedClock | None = None
) -> AsyncIterator[Living]:
    """Run the deployment at ``path``; set the manifest ``raw`` if the deployment is new."""
    async with deployment(path, raw, simulated=False, clock=clock) as opened:
        deployed = Living(opened, opened.engine)
        try:
            yield deployed
        finally:
            deployed.close()
