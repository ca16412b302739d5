"""Sessions as a context of ``keyhouse context`` describes them, with a real coordinator."""

import asyncio
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from msgspec.structs import replace
from support.process.server import Server
from support.samples.deployment import user

from keyhouse import AsyncCoordinator, CallRefusedError, Coordinator, Secret, Trust
from keyhouse.base.errors import RefusedError
from keyhouse.client import ClientSetupError, ContextUnusableError, MemoryUnusableError
from keyhouse.client.contexts import Contexts, SavedContext, contexts_path, write

pytestmark = pytest.mark.acceptance

PASSWORD = Secret(b"correct horse")
READER = user("reader")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "KEYHOUSE_CONTEXT"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def keep(server: Server, *, current: str = "prod", **fields: object) -> None:
    """Keep ``prod``, a context for the coordinator."""
    machine = server.data / "simulation"
    context = SavedContext(
        address=f"127.0.0.1:{server.port}",
        attestation=str(machine / "attestation.json"),
        simulation_root=str(machine / "root.pem"),
    )
    place = contexts_path()
    assert place is not None
    write(place, Contexts(current, {"prod": replace(context, **fields)}))


def pem_files(folder: Path) -> dict[str, str]:
    for name, content in (("me.crt", READER.pem), ("me.key", READER.key_pem)):
        (folder / name).write_bytes(content)
    return {"cert": str(folder / "me.crt"), "key": str(folder / "me.key")}


def pkcs12_file(folder: Path) -> str:
    key = load_pem_private_key(READER.key_pem, None)
    certificate = x509.load_der_x509_certificate(READER.der)
    encryption = BestAvailableEncryption(PASSWORD.reveal())
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    content = serialize_key_and_certificates(b"me", key, certificate, None, encryption)
    (folder / "me.p12").write_bytes(content)
    return str(folder / "me.p12")


@pytest.mark.parametrize("kind", ["files", "PKCS #12"])
def test_the_user_of_the_context_reads_a_secret(running: Server, home: Path, kind: str) -> None:
    is_p12 = kind == "PKCS #12"
    keep(running, **({"pkcs12": pkcs12_file(home)} if is_p12 else pem_files(home)))

    with Coordinator.from_context("prod", password=PASSWORD if is_p12 else None) as coordinator:
        found = coordinator.secrets(["shared"])["shared"]

    assert found.private is not None
    assert len(found.private) == 32
    assert (home / ".local/state/keyhouse/known-coordinators.json").exists()


def test_the_context_in_use_on_an_event_loop(running: Server, home: Path) -> None:
    keep(running, memory="none", **pem_files(home))

    async def program() -> int:
        async with AsyncCoordinator.from_context() as coordinator:
            return (await coordinator.status()).code

    assert asyncio.run(program()) == 3
    assert not (home / ".local").exists()


def test_who_presents_no_certificate_is_told_so(running: Server) -> None:
    keep(running)

    with Coordinator.from_context("prod") as nobody:
        with pytest.raises(CallRefusedError, match=r"^no certificate was presented") as refused:
            nobody.secrets(["shared"])
        assert refused.value.reason == "unauthenticated"
        with pytest.raises(CallRefusedError, match=r"^no certificate was presented"):
            nobody.update(b"{}")


def test_who_presents_a_certificate_of_no_user_is_told_that(running: Server, home: Path) -> None:
    stranger = user("stranger")
    (home / "me.pem").write_bytes(stranger.pem + stranger.key_pem)
    keep(running, cert=str(home / "me.pem"), key=str(home / "me.pem"))

    with Coordinator.from_context() as coordinator, pytest.raises(CallRefusedError) as refused:
        coordinator.secrets(["shared"])

    assert str(refused.value).startswith("no user of the manifest has this client certificate")


@pytest.mark.parametrize(
    ("current", "name", "fields", "error", "message"),
    [
        ("", "", {}, ContextUnusableError, "no context is in use"),
        ("", "none", {}, ContextUnusableError, "no context is in use"),
        ("", "test", {}, ContextUnusableError, "there is no context 'test'"),
        ("prod", "", {"address": ""}, ContextUnusableError, "'prod' has no address"),
        ("prod", "", {"attestation": ""}, ContextUnusableError, "'prod' has no attestation"),
        ("prod", "", {"attestation": "/no/file"}, ClientSetupError, "cannot read /no/file"),
        ("prod", "", {"simulation_root": ""}, RefusedError, "no collateral"),
        ("prod", "", {"collateral": "/no/file"}, ClientSetupError, "cannot read /no/file"),
        ("prod", "", {"collateral": "/a", "pccs": "https://b:1"}, RefusedError, "named twice"),
        ("prod", "", {"pccs_ca": "/a"}, ClientSetupError, "pccs_ca has no effect"),
        ("prod", "", {"accepted_tcb_statuses": (",",)}, ContextUnusableError, "is empty"),
        ("prod", "", {"accepted_tcb_statuses": ("Fine",)}, RefusedError, "'Fine'"),
        ("prod", "", {"pkcs12": "/no/file"}, ClientSetupError, "cannot read /no/file"),
        ("prod", "", {"memory": "/"}, MemoryUnusableError, "memory / must name a file"),
    ],
)
def test_what_a_context_lacks_is_named(
    running: Server,
    current: str,
    name: str,
    fields: dict[str, object],
    error: type[Exception],
    message: str,
) -> None:
    keep(running, current=current, **fields)

    with pytest.raises(error, match=message):
        Coordinator.from_context(name)


def test_without_a_place_for_the_memory_nothing_is_trusted(
    running: Server, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    monkeypatch.delenv("HOME")
    keep(running)

    with pytest.raises(MemoryUnusableError, match="XDG_STATE_HOME"):
        Coordinator.from_context()


def test_trust_from_files_takes_lists_of_entries_only(running: Server) -> None:
    machine = running.data / "simulation"
    attestation, root = machine / "attestation.json", machine / "root.pem"

    found = Trust.from_files(attestation, simulation_root=root, accepted_tcb_statuses=["OutOfDate"])

    assert found.expected.accepted_tcb_statuses == ("OutOfDate",)
    with pytest.raises(TypeError, match="accepted statuses"):
        Trust.from_files(attestation, simulation_root=root, accepted_tcb_statuses="OutOfDate")
