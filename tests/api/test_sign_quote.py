"""What the root key signs of quotes: the exact bytes and the status, or nothing."""

import base64
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from support.samples.deployment import NOW, manifest, running_engine, set_manifest

from keyhouse.attestation import TcbStatus, add_header
from keyhouse.base.errors import BadRequest, Forbidden
from keyhouse.coordinator import Engine
from keyhouse.server.client_api import Service, routes
from keyhouse.server.client_api.v2.sign_quote import sign_quote
from keyhouse.server.http.exchange import Head
from keyhouse.server.services.quote_checks import QuoteChecks
from keyhouse.server.services.quotes import Quotes
from keyhouse_simulation import (
    Enclave,
    Parameters,
    SimulatedPlatform,
    TcbInfo,
    make_machine,
)

HEAD = Head("POST", "/api/v2/sign-quote", b"", None)
PRESENT = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=NOW)
MACHINE = make_machine(PRESENT)
GATE = manifest(FeatureGates=["SignQuoteEndpoint"])


def platform_of(parameters: Parameters | None = None) -> SimulatedPlatform:
    return SimulatedPlatform(MACHINE, parameters, now=lambda: PRESENT)


@asynccontextmanager
async def serving(
    folder: Path, platform: SimulatedPlatform, raw: bytes = GATE
) -> AsyncIterator[tuple[Engine, Service]]:
    async with running_engine(folder / "state") as engine:
        await set_manifest(engine, raw)
        checks = QuoteChecks(platform.root_ca, lambda: platform.collateral, lambda: PRESENT)
        quotes = Quotes(platform, engine.view.state.keys)
        service = Service(engine, quotes, routes(), quote_checks=checks, simulated=True)
        try:
            yield engine, service
        finally:
            service.close()


def body(quote: bytes) -> bytes:
    return json.dumps({"sgxQuote": base64.b64encode(quote).decode()}).encode()


async def refused(service: Service, sent: bytes) -> dict[str, str]:
    with pytest.raises(BadRequest) as caught:
        await sign_quote(service, HEAD, sent)
    return caught.value.fields


@pytest.mark.parametrize("status", sorted(set(TcbStatus) - {TcbStatus.REVOKED}))
async def test_each_status_is_signed_with_the_quote_as_it_was_submitted(
    tmp_path: Path, status: TcbStatus
) -> None:
    platform = platform_of(Parameters(tcb_info=TcbInfo(status=status)))
    raw = platform.quote(hashlib.sha512(b"anything").digest())
    async with serving(tmp_path, platform) as (engine, service):
        root = x509.load_der_x509_certificate(engine.view.state.keys.root_cert)
        for quote in (raw, add_header(raw)):
            if len(quote) % 3 == 0:
                continue
            data = json.loads((await sign_quote(service, HEAD, body(quote))).body)["data"]
            assert list(data) == ["tcbStatus", "signature", "verificationSignature"]
            assert data["tcbStatus"] == status
            assert data["signature"] == data["verificationSignature"]
            key = root.public_key()
            assert isinstance(key, ec.EllipticCurvePublicKey)
            text = base64.b64encode(quote) + status.encode()
            key.verify(base64.b64decode(data["signature"]), text, ec.ECDSA(hashes.SHA256()))


async def test_a_length_that_makes_the_signed_text_ambiguous_is_refused(tmp_path: Path) -> None:
    status = TcbStatus.CONFIGURATION_AND_SW_HARDENING_NEEDED
    parameters = Parameters(tcb_info=TcbInfo(status=status))
    # Lengths differ from machine to machine, as the signatures in their certificates do.
    machines = (make_machine(PRESENT) for _ in range(100))
    platforms = (SimulatedPlatform(each, parameters, now=lambda: PRESENT) for each in machines)
    platform = next(each for each in platforms if len(each.quote(bytes(64))) % 3 == 0)
    quote = platform.quote(bytes(64))
    async with serving(tmp_path, platform) as (_, service):
        assert "ambiguous" in (await refused(service, body(quote)))["sgxQuote"]
        assert (await sign_quote(service, HEAD, body(add_header(quote)))).status == 200


async def test_quotes_that_do_not_verify_are_refused_with_a_reason(tmp_path: Path) -> None:
    platform = platform_of()
    quote = platform.quote(bytes(64))
    other = SimulatedPlatform(make_machine(PRESENT), now=lambda: PRESENT).quote(bytes(64))
    debug = platform_of(Parameters(enclave=Enclave(debug=True))).quote(bytes(64))
    changed = quote[:100] + bytes([quote[100] ^ 1]) + quote[101:]
    async with serving(tmp_path, platform) as (_, service):
        for bent, reason in (
            (b"", "it is empty"),
            (quote + b"\0", "1 bytes follow"),
            (quote[:-1], "ends inside"),
            (changed, "signature"),
            (debug, "debug enclave"),
            (other, "root"),
        ):
            fields = await refused(service, body(bent))
            assert list(fields) == ["sgxQuote"]
            assert reason in fields["sgxQuote"]


async def test_bodies_that_cannot_be_read_are_refused_at_their_one_field(tmp_path: Path) -> None:
    async with serving(tmp_path, platform_of()) as (_, service):
        for sent in (b"", b"{", b"[]", b'{"sgxQuote":"?"}', b'{"sgxQuote":[1]}', b"\xff", b"{}"):
            fields = await refused(service, sent)
            assert list(fields) == ["sgxQuote"]
            assert fields["sgxQuote"]


async def test_nothing_is_signed_once_the_manifest_does_not_enable_it(tmp_path: Path) -> None:
    """The gate is asked again: a body and a check take time, and the manifest may have changed."""
    platform = platform_of()
    sent = body(platform.quote(bytes(64)))
    async with serving(tmp_path, platform, manifest()) as (_, service):
        with pytest.raises(Forbidden, match="FeatureGates"):
            await sign_quote(service, HEAD, sent)
