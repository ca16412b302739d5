"""Workloads that join a deployment in this process: everything is real except the transport."""

import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

from keyhouse.attestation import (
    Collateral,
    Measurements,
    Tee,
    quote_binding,
    read_form,
    report_data,
)
from keyhouse.coordinator import ActivationParameters, ActivationRequest, Engine, ReadGate
from keyhouse.server.services.activation_outcomes import ActivationCounts, Refusals
from keyhouse.server.services.activations import ActivationService
from keyhouse.server.services.events import Events
from keyhouse.server.services.quote_checks import QuoteChecks
from keyhouse_simulation import SimulatedPlatform, make_machine
from support.samples.deployment import NOW, FixedClock, moment, running_engine, set_manifest, user
from support.samples.signing_request import signing_request

__all__ = ["TLS_CERT", "Deployment", "deployment", "marble_manifest", "platform", "quoted_request"]

TLS_CERT = user("a launcher").der
"""The launcher's client certificate (DER)."""


@cache
def platform() -> SimulatedPlatform:
    """Return a simulated machine: the same in the whole run."""
    return SimulatedPlatform(make_machine(moment(NOW)), now=lambda: moment(NOW))


def marble_manifest(marbles: dict[str, Any] | None = None, **sections: Any) -> bytes:
    """Return a manifest with ``marbles``; None: a type ``web`` of the package ``app``.

    ``admin`` may update the manifest. The package admits ``quoted_request``.
    """
    content: dict[str, Any] = {
        "Packages": {"app": {"SignerID": "ab" * 32, "ProductID": 7, "SecurityVersion": 2}},
        "Marbles": marbles or {"web": {"Package": "app"}},
        "Users": {
            "admin": {"Certificate": user("admin").pem.decode(), "Roles": ["admin", "writer"]},
        },
        "Roles": {
            "admin": {"ResourceType": "Manifest", "Actions": ["UpdateManifest"]},
            "writer": {
                "ResourceType": "Packages",
                "ResourceNames": ["app"],
                "Actions": ["UpdateSecurityVersion"],
            },
        },
    }
    for section, values in sections.items():
        content[section] = content.get(section, {}) | values
    return json.dumps(content).encode()


def quoted_request(
    marble_type: str = "web",
    *,
    marble: str = "",
    certificate: bytes = TLS_CERT,
    isvsvn: int = 2,
    signer: str = "ab",
) -> ActivationRequest:
    """Return a request with a quote; with the defaults, the package admits its enclave."""
    enclave = Measurements(
        unique_id=b"\x01" * 32,
        signer_id=bytes.fromhex(signer * 32),
        product_id=7,
        security_version=isvsvn,
    )
    bound = report_data(quote_binding(certificate))
    return ActivationRequest(
        quote=platform().workload_quote(enclave, bound),
        csr=signing_request(),
        marble_type=marble_type,
        uuid=marble or str(uuid.uuid4()),
    )


def collateral_for(quote: bytes) -> Collateral:
    """Return the collateral for a quote of the simulated machine."""
    is_vm = read_form(quote).tee is Tee.TDX
    return platform().td_collateral if is_vm else platform().collateral


class Deployment:
    """A running engine with its activation service."""

    def __init__(
        self, engine: Engine, *, simulated: bool = True, gate: ReadGate | None = None
    ) -> None:
        self.engine = engine
        self.counts = ActivationCounts()
        self.events = Events()
        self.refusals = Refusals(engine.current.now())
        self.seconds = 0.0  # the clock that limits reports of refusals
        self._checks = QuoteChecks(
            platform().root_ca, collateral_for, lambda: moment(engine.current.now())
        )
        self.activations = ActivationService(
            engine,
            self._checks,
            simulated=simulated,
            events=self.events,
            counts=self.counts,
            refusals=self.refusals,
            gate=gate,
            pace=lambda: self.seconds,
        )

    async def join(
        self,
        marble_type: str = "web",
        marble: str = "",
        *,
        csr: bytes | None = None,
        quote: bytes = b"",
        identity: bytes | None = TLS_CERT,
    ) -> ActivationParameters:
        """Activate a workload, by default without a quote."""
        request = ActivationRequest(
            quote=quote,
            csr=signing_request() if csr is None else csr,
            marble_type=marble_type,
            uuid=marble or str(uuid.uuid4()),
        )
        return await self.activations.activate(request, identity)

    @property
    def audited(self) -> list[dict[str, Any]]:
        """The durable part of the audit trail."""
        audit = self.engine.view.log.audit
        return [json.loads(line) for line in audit.lines(audit.first, len(audit))]

    def close(self) -> None:
        """Stop the threads."""
        self.activations.close()
        self._checks.close()


@asynccontextmanager
async def deployment(
    path: Path, raw: bytes | None = None, *, simulated: bool = True, clock: FixedClock | None = None
) -> AsyncIterator[Deployment]:
    """Run the deployment at ``path``. ``raw`` becomes its first manifest; None: set no manifest."""
    async with running_engine(path, clock) as engine:
        if raw is not None:
            await set_manifest(engine, raw)
        opened = Deployment(engine, simulated=simulated)
        try:
            yield opened
        finally:
            opened.close()
