"""Ends of certificates as metrics: those of the manifest's names, read once."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from prometheus_client.parser import text_string_to_metric_families
from support.samples.deployment import NOW, moment, running_engine, set_manifest, user
from support.samples.expiry import certificate_until, manifest_with

from keyhouse.coordinator import View, prepare_upload
from keyhouse.coordinator.engine.engine import Engine
from keyhouse.server.metrics.certificates import CertificateMetrics
from keyhouse.wire.secret_types import UserSecret

END = datetime(2031, 2, 3, 4, 5, 6, tzinfo=UTC)
SECRETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "web": {"Type": "cert-ecdsa", "Size": 256, "Shared": True, "ValidFor": 7, "Cert": {}},
    "own": {"Type": "cert-ed25519", "Cert": {}},
    "uploaded": {"Type": "cert-ecdsa", "Size": 256, "UserDefined": True},
}


def read(text: bytes) -> dict[str, float]:
    """Return the values by metric and name."""
    return {
        f"{family.name.split('_')[1]} {next(iter(sample.labels.values()))}": sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


async def upload_certificate(engine: Engine, end: datetime) -> View:
    der = certificate_until(end).public_bytes(Encoding.DER)
    state = engine.view.running
    return await engine.submit(
        prepare_upload(state, user("writer").der, {"uploaded": UserSecret(cert=der)})
    )


async def test_before_a_manifest_there_are_no_samples(tmp_path: Path) -> None:
    async with running_engine(tmp_path / "state") as engine:
        text = await CertificateMetrics().text(engine.view.state)

    assert read(text) == {}
    assert text.count(b"# TYPE") == 2


async def test_users_and_shared_certificates_are_there_and_nothing_else(tmp_path: Path) -> None:
    metrics = CertificateMetrics()
    async with running_engine(tmp_path / "state") as engine:
        await set_manifest(engine, manifest_with({"ann": END}, SECRETS))
        found = read(await metrics.text(engine.view.state))
        web = x509.load_der_x509_certificate(engine.view.running.secrets["web"].cert)

    assert found.keys() == {"user ann", "user writer", "user reader", "user nobody", "secret web"}
    assert found["user ann"] == END.timestamp()
    assert found["secret web"] == web.not_valid_after_utc.timestamp()
    assert abs(found["secret web"] - (moment(NOW) + timedelta(days=7)).timestamp()) < 86400


async def test_uploaded_certificate_is_there_as_soon_as_it_is_and_replaced_with_it(
    tmp_path: Path,
) -> None:
    metrics = CertificateMetrics()
    async with running_engine(tmp_path / "state") as engine:
        before = read(
            await metrics.text((await set_manifest(engine, manifest_with({}, SECRETS))).state)
        )
        first = read(await metrics.text((await upload_certificate(engine, END)).state))
        later = END + timedelta(days=1)
        second = read(await metrics.text((await upload_certificate(engine, later)).state))

    assert "secret uploaded" not in before
    assert first == before | {"secret uploaded": END.timestamp()}
    assert second == before | {"secret uploaded": later.timestamp()}


async def test_text_of_an_unchanged_state_is_kept(tmp_path: Path) -> None:
    metrics = CertificateMetrics()
    async with running_engine(tmp_path / "state") as engine:
        await set_manifest(engine, manifest_with({}, SECRETS))

        assert await metrics.text(engine.view.state) is await metrics.text(engine.view.state)


async def test_many_certificates_are_read_while_others_have_their_turn(tmp_path: Path) -> None:
    shared = {"Type": "cert-ed25519", "Shared": True, "Cert": {}}
    many = {f"c{number}": shared for number in range(150)}
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with running_engine(tmp_path / "state") as engine:
        await set_manifest(engine, manifest_with({}, many))
        task = asyncio.create_task(other())
        found = read(await CertificateMetrics().text(engine.view.state))
        task.cancel()

    assert len([name for name in found if name.startswith("secret ")]) == 150
    assert turns >= 4
