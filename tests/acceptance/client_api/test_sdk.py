"""Every operation of the SDK, blocking and on an event loop, against a real coordinator."""

import hashlib
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from support.peers.sdk import MODES, Mode, connected, trust_in_server
from support.peers.workloads import grpcio, request
from support.process.server import Server
from support.samples.deployment import user
from support.samples.updates import holder_key, together

from keyhouse.base.secret import Secret
from keyhouse.client import (
    AsyncCoordinator,
    CallRefusedError,
    ClientIdentity,
    Coordinator,
    FileMemory,
    HolderKey,
    PemIdentity,
    SecretUpload,
    TrustError,
    UserIdentity,
    read_pem,
    read_pkcs12,
)

pytestmark = pytest.mark.acceptance

GATES = ["SignQuoteEndpoint", "MonotonicCounter"]
FIRST = together(holders=["rk0"], FeatureGates=GATES)
NEW = together(holders=["rk1"], FeatureGates=GATES, word="new")
PASSWORD = Secret(b"correct horse")


class Deployment(NamedTuple):
    """A coordinator whose first manifest was set by a session of this kind."""

    server: Server
    mode: Mode
    folder: Path
    shares: Mapping[str, bytes]  # as they were kept

    def session(self, name: str = "", **options: Any) -> AbstractContextManager[Any]:
        """Connect as the user ``name``, or as nobody, with a memory."""
        return self.session_as(identity(name) if name else None, **options)

    def session_as(self, who: UserIdentity | None, **options: Any) -> AbstractContextManager[Any]:
        trust, memory = trust_in_server(self.server), FileMemory(self.folder / "memory")
        where = f"127.0.0.1:{self.server.port}"
        return connected(self.mode, where, trust, who, **({"memory": memory} | options))


def identity(name: str) -> PemIdentity:
    return PemIdentity(user(name).pem, Secret(user(name).key_pem))


def deployed(mode: Mode, server: Server) -> Deployment:
    """Set the manifest of ``server``, which waits for one."""
    kept: dict[str, bytes] = {}
    found = Deployment(server, mode, server.data.parent, kept)
    with found.session() as nobody:
        assert nobody.status().code == 2
        assert nobody.set_manifest(FIRST, kept.update) == kept
        assert nobody.status().code == 3
    return found


def root_of(deployment: Deployment) -> bytes:
    """Return the root certificate under which it answers now."""
    return ssl.PEM_cert_to_DER_cert(
        ssl.get_server_certificate(("127.0.0.1", deployment.server.port))
    )


@pytest.fixture(scope="module", params=MODES)
def deployment(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Deployment]:
    """A coordinator for all tests of one kind of session; it ends with the manifest it began."""
    with Server(tmp_path_factory.mktemp("sdk") / "data") as server:
        yield deployed(request.param, server)


def test_both_kinds_of_session_have_every_operation_of_the_interface(
    deployment: Deployment,
) -> None:
    def operations(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    own = {"connect", "close", "from_context", "log_head", "trusted"}
    assert operations(Coordinator) == operations(AsyncCoordinator)
    with deployment.session() as nobody:
        described = json.loads(nobody.openapi())["paths"]
    calls = [path for path in described if path.startswith("/api/v2/")]
    called = {
        "/api/v2/activations": {"activations"},
        "/api/v2/counters": {"counters"},
        "/api/v2/line": {"attest", "line"},
        "/api/v2/log/checkpoint": {"log_checkpoint", "witnessed_checkpoint"},
        "/api/v2/log/key": {"log_key"},
        "/api/v2/log/object/{object}": {"log_part"},
        "/api/v2/log/quote": {"log_quote"},
        "/api/v2/log/tile/{tile}": {"log_part"},
        "/api/v2/manifest": {"manifest", "set_manifest", "verify_manifest"},
        "/api/v2/monotonic-counter": {"raise_counter"},
        "/api/v2/openapi.json": {"openapi"},
        "/api/v2/plan": {"plan"},
        "/api/v2/quote": {"attest"},
        "/api/v2/revocations": {"revocations", "revoke"},
        "/api/v2/recover": {"recover", "recover_with"},
        "/api/v2/recover/public-key": {"recovery_offer"},
        "/api/v2/recovery-secrets": {"recovery_secrets"},
        "/api/v2/refused-activations": {"refused_activations"},
        "/api/v2/secrets": {"secrets", "write_secrets"},
        "/api/v2/sign-quote": {"sign_quote"},
        "/api/v2/status": {"status"},
        "/api/v2/update": {"update", "update_log"},
        "/api/v2/update-cancel": {"cancel"},
        "/api/v2/update-manifest": {"acknowledge", "pending"},
        "/api/v2/workloads": {"workloads"},
    }
    assert set(calls) == set(called)
    assert set().union(*called.values()) | own == operations(Coordinator)


def test_what_is_in_force_is_read_and_verified(deployment: Deployment) -> None:
    with deployment.session() as nobody:
        current = nobody.manifest()
        assert current.manifest == FIRST
        assert nobody.verify_manifest(FIRST) == current
        assert nobody.verify_manifest(hashlib.sha256(FIRST).hexdigest().upper()) == current
        with pytest.raises(TrustError, match="another manifest"):
            nobody.verify_manifest(NEW)
        with pytest.raises(TrustError, match="another manifest"):
            nobody.verify_manifest("\udcff")
        assert nobody.update_log()[0].update == "Initial manifest set"


def test_a_session_can_have_the_coordinator_proven_again(deployment: Deployment) -> None:
    trust = trust_in_server(deployment.server)
    with deployment.session() as nobody:
        again = nobody.attest(trust)
        third = nobody.attest(trust)
        with pytest.raises(TrustError):
            nobody.attest(type(trust)(expected=trust.expected, collateral=trust.collateral))
    assert again.root_der == third.root_der
    assert again.nonce != third.nonce


def identities(folder: Path) -> dict[str, UserIdentity]:
    """Return the user ``writer`` in every form that the SDK reads."""
    writer = user("writer")
    key = load_pem_private_key(writer.key_pem, None)
    certificate = x509.load_pem_x509_certificate(writer.pem)
    secretly = BestAvailableEncryption(PASSWORD.reveal())
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secretly)
    files = ClientIdentity(folder / "writer.crt", folder / "writer.key")
    files.certificate.write_bytes(writer.pem)
    files.key.write_bytes(writer.key_pem)

    def p12(protection: Any) -> Secret:
        return Secret(serialize_key_and_certificates(b"w", key, certificate, None, protection))  # type: ignore[arg-type]

    return {
        "files": files,
        "PEM": read_pem(writer.pem, Secret(writer.key_pem)),
        "encrypted PEM": read_pem(writer.pem, Secret(encrypted), PASSWORD),
        "PKCS #12": read_pkcs12(p12(secretly), PASSWORD),
        "open PKCS #12": read_pkcs12(p12(NoEncryption())),
    }


@pytest.mark.parametrize("form", ["files", "PEM", "encrypted PEM", "PKCS #12", "open PKCS #12"])
def test_a_user_is_the_same_in_every_form(
    deployment: Deployment, tmp_path: Path, form: str
) -> None:
    value = Secret(form.encode())
    with deployment.session_as(identities(tmp_path)[form]) as writer:
        writer.write_secrets({"note": SecretUpload(key=value)})
        assert writer.secrets(["note"])["note"].private == value
        assert writer.update_log()[-1].user == "writer"


def test_refusals_tell_programs_why_and_where(deployment: Deployment) -> None:
    value = {"note": SecretUpload(key=Secret(b"x"))}
    with deployment.session() as nobody, pytest.raises(CallRefusedError) as unknown:
        nobody.write_secrets(value)
    with deployment.session("releaser") as releaser, pytest.raises(CallRefusedError) as forbidden:
        releaser.write_secrets(value)
    with deployment.session("alice") as alice, pytest.raises(CallRefusedError) as invalid:
        alice.update(b'{"Packages": {}, "Marble": {}}')
    with deployment.session() as nobody, pytest.raises(CallRefusedError) as unsigned:
        nobody.sign_quote(b"no quote")
    found = [each.value for each in (unknown, forbidden, invalid, unsigned)]
    assert [(one.http_status, one.reason) for one in found] == [
        (401, "unauthenticated"),
        (403, "forbidden"),
        (400, "invalid"),
        (400, "bad-request"),
    ]
    assert any(problem.at.startswith("Marble") for problem in invalid.value.problems)
    assert set(unsigned.value.fields) == {"sgxQuote"}


def test_several_users_update(deployment: Deployment) -> None:
    with (
        deployment.session("alice") as alice,
        deployment.session("bob") as bob,
        deployment.session() as nobody,
    ):
        assert alice.recovery_secrets() == deployment.shares
        for goal, holder in ((NEW, "rk1"), (FIRST, "rk0")):
            assert nobody.pending() is None
            assert alice.update(goal).missing_acknowledgments == 1
            bob.cancel()
            assert nobody.pending() is None
            alice.update(goal)
            assert nobody.pending().manifest == goal
            kept: dict[str, bytes] = {}
            done = bob.acknowledge(goal, kept.update)
            assert done.applied
            assert list(kept) == [holder]
            assert nobody.manifest().manifest == goal


def test_the_root_signs_quotes_and_the_signature_is_checked(deployment: Deployment) -> None:
    with deployment.session() as nobody:
        signed = nobody.sign_quote(nobody.attest(trust_in_server(deployment.server)).quote)
    assert signed.tcb_status == "UpToDate"


def test_a_workload_counts_and_operators_see_that_it_joined(deployment: Deployment) -> None:
    joining = request()
    with grpcio(deployment.server.mesh_port) as channel:
        ended = channel.call(joining)
    assert ended.answer is not None, ended
    env = ended.answer.Parameters.Env
    chain = env["MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN"]
    workload = read_pem(chain, Secret(env["MARBLE_PREDEFINED_PRIVATE_KEY"]))
    with deployment.session_as(workload) as marble:
        assert [marble.raise_counter("releases", value) for value in (7, 3, 9)] == [0, 7, 7]
    with deployment.session("alice") as alice:
        page = alice.activations()
        assert alice.activations(page.first) == page
        assert alice.activations(page.next).activations == ()
        with pytest.raises(CallRefusedError):
            alice.raise_counter("releases", 7)  # a user is no workload
    (joined,) = page.activations
    assert (joined.marble_type, joined.uuid) == ("app", joining.UUID)


def test_recovery_is_for_the_phase_of_recovery(deployment: Deployment) -> None:
    with deployment.session() as nobody:
        for call in (nobody.recovery_offer, lambda: nobody.recover(b"share", b"signature")):
            with pytest.raises(CallRefusedError) as refused:
                call()
            assert refused.value.reason == "conflict"


@pytest.mark.parametrize("mode", MODES)
def test_a_lost_state_comes_back_for_its_holder_alone(tmp_path: Path, mode: Mode) -> None:
    server = Server(tmp_path / "data")
    with server:
        lost = deployed(mode, server)
        root = root_of(lost)
    (tmp_path / "data" / "sealed_key").unlink()
    pem = holder_key("rk0").private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    own, share = HolderKey(Secret(pem)), lost.shares["rk0"]
    with server:
        with pytest.raises(TrustError, match="root certificate at"), lost.session():
            pass  # a temporary one, which the memory does not know
        with lost.session(memory=None) as nobody:
            with pytest.raises(TrustError, match="certificate that you kept"):
                nobody.recover_with(own, share, root_of(lost))
            assert nobody.recover_with(own, share, root).remaining == 0
        with lost.session() as nobody:
            nobody.verify_manifest(FIRST)
