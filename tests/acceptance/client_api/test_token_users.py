"""Users whose keys are on a token act in a real coordinator: they read, write and agree."""

import json
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from support.peers.peer import Certified, listening
from support.peers.sdk import MODES, Mode, connected, session_with, trust_in_server
from support.peers.workloads import grpcio, request
from support.process.command import run
from support.process.server import Server
from support.process.softhsm import LIBRARY, PIN, TOKEN, needs_engine, on_token
from support.samples.deployment import user
from support.samples.updates import together

from keyhouse.base.secret import Secret
from keyhouse.client import (
    CallRefusedError,
    Coordinator,
    PemIdentity,
    SecretUpload,
    TokenIdentity,
    TrustError,
    User,
    read_token,
)

pytestmark = [pytest.mark.acceptance, needs_engine]

KINDS = {"EC": "writer", "RSA": "bob"}  # of key, to the user who has it


def manifest(word: str = "") -> bytes:
    """Return a manifest whose users on the token may write ``note`` and agree to updates."""

    def put_on_token(document: dict[str, Any]) -> None:
        for kind, name in KINDS.items():
            certificate = on_token(kind).pem.decode()
            document["Users"][name] = {"Certificate": certificate, "Roles": ["admin", "write"]}

    return together(put_on_token, word=word)


class Deployment(NamedTuple):
    """A coordinator with that manifest, and the kind of session to have with it."""

    server: Server
    mode: Mode

    def session(self, who: User | None) -> AbstractContextManager[Any]:
        where = f"127.0.0.1:{self.server.port}"
        return connected(self.mode, where, trust_in_server(self.server), who)


@pytest.fixture(scope="module", params=MODES)
def deployment(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Deployment]:
    with Server(tmp_path_factory.mktemp("token") / "data") as server:
        found = Deployment(server, request.param)
        with found.session(None) as nobody:
            nobody.set_manifest(manifest())
        yield found


def holder(kind: str) -> TokenIdentity:
    """Return the user with the key of this kind; the token has the certificate, too."""
    on_token(kind)
    return read_token(LIBRARY, token=TOKEN, pin=PIN, label=kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_user_with_a_token_reads_and_uploads_secrets(deployment: Deployment, kind: str) -> None:
    value = Secret(f"written with {kind}".encode())
    with deployment.session(holder(kind)) as session:
        assert session.status().code == 3
        session.write_secrets({"note": SecretUpload(key=value)})
        assert session.secrets(["note"])["note"].private == value
        assert session.update_log()[-1].user == KINDS[kind]
        with pytest.raises(CallRefusedError) as refused:
            session.secrets(["shared"])
    assert refused.value.reason == "forbidden"


def test_users_with_tokens_agree_to_an_update(deployment: Deployment) -> None:
    alice = PemIdentity(user("alice").pem, Secret(user("alice").key_pem))
    for kind, goal in (("EC", manifest("new")), ("RSA", manifest())):
        with deployment.session(alice) as first, deployment.session(holder(kind)) as second:
            assert not first.update(goal).applied
            done = second.acknowledge(goal)
            assert (done.applied, done.signed) == (True, True)
            assert second.manifest().manifest == goal


def test_a_workloads_certificate_at_the_address_hears_nothing(
    deployment: Deployment, tmp_path: Path
) -> None:
    with grpcio(deployment.server.mesh_port) as channel:
        ended = channel.call(request())
    assert ended.answer is not None, ended
    env = ended.answer.Parameters.Env
    key: Any = load_pem_private_key(env["MARBLE_PREDEFINED_PRIVATE_KEY"], None)
    chain = x509.load_pem_x509_certificates(env["MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN"])
    trust = trust_in_server(deployment.server)
    with Coordinator.connect(f"127.0.0.1:{deployment.server.port}", trust) as session:
        verified = session.trusted
    root = x509.load_der_x509_certificate(verified.root_der)
    served = tuple(Certified(key, each) for each in (*chain, root))
    with listening(served, tmp_path) as (elsewhere, heard):
        moved = msgspec.structs.replace(verified, address=elsewhere)
        with (
            session_with(deployment.mode, moved, holder("EC")) as session,
            pytest.raises(TrustError, match="not the verified root"),
        ):
            session.secrets(["note"])
    assert b"".join(heard) == b""


@pytest.mark.parametrize("kind", KINDS)
def test_a_command_is_told_which_token(deployment: Deployment, tmp_path: Path, kind: str) -> None:
    on_token(kind)
    file, simulation = tmp_path / "token.json", deployment.server.data / "simulation"
    named = {"Path": str(LIBRARY), "TokenLabel": TOKEN, "Pin": PIN.reveal().decode()}
    words = ["secret", "get", "note", f"127.0.0.1:{deployment.server.port}", "--json"]
    words += ["--attestation", str(simulation / "attestation.json")]
    words += ["--simulation-root", str(simulation / "root.pem")]
    words += ["--pkcs11-config", str(file), "--pkcs11-key-id", kind.encode().hex()]
    environment = {"SOFTHSM2_CONF": os.environ["SOFTHSM2_CONF"]}

    file.write_text(json.dumps(named))
    read = run(*words, env=environment)
    assert read.code == 0, read
    assert "note" in json.loads(read.out)["secrets"]

    file.write_text(json.dumps(named | {"Pin": "90817263"}))
    refused = run(*words, env=environment)
    assert (refused.code, refused.out) == (1, "")
    assert "PIN" in refused.err
    assert "90817263" not in refused.err
