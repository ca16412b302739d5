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
from keyhouse.base.errors import ForbiddenError
from keyhouse.coordinator import Engine
from keyhouse.server.client_api import Dispatcher
from keyhouse.server.http.exchange import Admission, Answer, Head
from keyhouse.server.process.serving import client_api
from keyhouse.server.services.feature_gates import sign_quote
from keyhouse.server.services.quote_checks import QuoteChecks
from keyhouse_simulation import (
    QuotedEnclave,
    QuoteParameters,
    SimulatedPlatform,
    TcbInfo,
    make_machine,
)

HEAD = Head("POST", "/api/v2/sign-quote", b"", None)
PRESENT = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=NOW)
MACHINE = make_machine(PRESENT)
GATE = manifest(FeatureGates=["SignQuoteEndpoint"])


def platform_of(parameters: QuoteParameters | None = None) -> SimulatedPlatform:
    return SimulatedPlatform(MACHINE, parameters, now=lambda: PRESENT)


def checks_of(platform: SimulatedPlatform) -> QuoteChecks:
    return QuoteChecks(platform.root_ca, lambda _: platform.collateral, lambda: PRESENT)


@asynccontextmanager
async def serving(
    folder: Path, platform: SimulatedPlatform, raw: bytes = GATE
) -> AsyncIterator[tuple[Engine, Dispatcher]]:
    async with running_engine(folder / "state") as engine:
        await set_manifest(engine, raw)
        with client_api(engine, platform, checks_of(platform)) as api:
            yield engine, api.dispatcher


def body(quote: bytes) -> bytes:
    return json.dumps({"sgxQuote": base64.b64encode(quote).decode()}).encode()


async def sign(application: Dispatcher, sent: bytes) -> Answer:
    admission = application.admit(HEAD)
    assert isinstance(admission, Admission)
    answer = admission.run(sent)
    return answer if isinstance(answer, Answer) else await answer


async def refused(application: Dispatcher, sent: bytes) -> dict[str, str]:
    answer = await sign(application, sent)
    assert answer.status == 400
    fields: dict[str, str] = json.loads(answer.body)["data"]
    return fields


@pytest.mark.parametrize("status", sorted(set(TcbStatus) - {TcbStatus.REVOKED}))
async def test_each_status_is_signed_with_the_quote_as_it_was_submitted(
    tmp_path: Path, status: TcbStatus
) -> None:
    platform = platform_of(QuoteParameters(tcb_info=TcbInfo(status=status)))
    raw = platform.quote(hashlib.sha512(b"anything").digest())
    async with serving(tmp_path, platform) as (engine, application):
        root = x509.load_der_x509_certificate(engine.view.state.keys.root_cert)
        for quote in (raw, add_header(raw)):
            if len(quote) % 3 == 0:
                continue
            data = json.loads((await sign(application, body(quote))).body)["data"]
            assert list(data) == ["tcbStatus", "signature", "verificationSignature"]
            assert data["tcbStatus"] == status
            assert data["signature"] == data["verificationSignature"]
            key = root.public_key()
            assert isinstance(key, ec.EllipticCurvePublicKey)
            text = base64.b64encode(quote) + status.encode()
            key.verify(base64.b64decode(data["signature"]), text, ec.ECDSA(hashes.SHA256()))


async def test_a_length_that_makes_the_signed_text_ambiguous_is_refused(tmp_path: Path) -> None:
    status = TcbStatus.CONFIGURATION_AND_SW_HARDENING_NEEDED
    parameters = QuoteParameters(tcb_info=TcbInfo(status=status))
    # Lengths differ from machine to machine, as the signatures in their certificates do.
    machines = (make_machine(PRESENT) for _ in range(100))
    platforms = (SimulatedPlatform(each, parameters, now=lambda: PRESENT) for each in machines)
    platform = next(each for each in platforms if len(each.quote(bytes(64))) % 3 == 0)
    quote = platform.quote(bytes(64))
    async with serving(tmp_path, platform) as (_, application):
        assert "ambiguous" in (await refused(application, body(quote)))["sgxQuote"]
        assert (await sign(application, body(add_header(quote)))).status == 200


async def test_quotes_that_do_not_verify_are_refused_with_a_reason(tmp_path: Path) -> None:
    platform = platform_of()
    quote = platform.quote(bytes(64))
    other = SimulatedPlatform(make_machine(PRESENT), now=lambda: PRESENT).quote(bytes(64))
    debug = platform_of(QuoteParameters(enclave=QuotedEnclave(debug=True))).quote(bytes(64))
    changed = quote[:100] + bytes([quote[100] ^ 1]) + quote[101:]
    async with serving(tmp_path, platform) as (_, application):
        for bent, reason in (
            (b"", "the quote is empty"),
            (quote + b"\0", "1 bytes follow"),
            (quote[:-1], "end inside"),
            (changed, "signature"),
            (debug, "debug enclave"),
            (other, "root"),
        ):
            fields = await refused(application, body(bent))
            assert list(fields) == ["sgxQuote"]
            assert reason in fields["sgxQuote"]


async def test_bodies_that_cannot_be_read_are_refused_at_their_one_field(tmp_path: Path) -> None:
    async with serving(tmp_path, platform_of()) as (_, application):
        for sent in (b"", b"{", b"[]", b'{"sgxQuote":"?"}', b'{"sgxQuote":[1]}', b"\xff", b"{}"):
            fields = await refused(application, sent)
            assert list(fields) == ["sgxQuote"]
            assert fields["sgxQuote"]


async def test_nothing_is_signed_once_the_manifest_does_not_enable_it(tmp_path: Path) -> None:
    """The gate is asked again: a body and a check take time, and the manifest may have changed."""
    platform = platform_of()
    checks = checks_of(platform)
    async with serving(tmp_path, platform, manifest()) as (engine, _):
        with pytest.raises(ForbiddenError, match="SignQuoteEndpoint"):
            await sign_quote(engine, checks, platform.quote(bytes(64)))
    checks.close()
