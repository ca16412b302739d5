"""The bytes of the interface: one success and each refusal of every endpoint, in golden files."""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.peers.answers import b64, with_web_certificate
from support.peers.golden import golden, is_writing, settled, write
from support.peers.joined import joined
from support.process.server import Client, Reply, Server
from support.samples.activation import marble_manifest
from support.samples.deployment import User, user
from support.samples.manifests import rsa_public_pem

from keyhouse.coordinator import Phase

pytestmark = pytest.mark.acceptance

V2 = "/api/v2"

Answers = dict[str, Reply]
Ask = Callable[..., None]

# What is asked in every phase: nothing but phase, gate and caller is judged.
EVERYWHERE: tuple[tuple[str, str], ...] = (
    ("GET", "/status"),
    ("GET", "/manifest"),
    ("GET", "/quote"),
    ("GET", "/quote?nonce=AAECAw=="),
    ("GET", "/quote?nonce=A"),
    ("GET", "/secrets?s=note"),
    ("POST", "/secrets"),
    ("GET", "/update"),
    ("PUT", "/status"),
    ("GET", "/nothing"),
)


@contextmanager
def asking(
    server: Server,
    answers: Answers,
    *,
    prefix: str = V2,
    known: Callable[[str], User] = user,
) -> Iterator[Ask]:
    """Yield a function that makes a request and keeps the answer under the request's name."""
    clients: dict[str, Client] = {}
    stack = ExitStack()

    def ask(method: str, path: str, body: Any = None, *, by: str = "", note: str = "") -> None:
        encoded = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if by not in clients:
            clients[by] = stack.enter_context(server.client(known(by) if by else None))
        reply = clients[by].call(method, prefix + path, encoded)
        name = f"{method} {path}" + (f" as {by}" if by else "") + (f": {note}" if note else "")
        assert name not in answers, name
        answers[name] = reply

    with stack:
        yield ask


def full_manifest(**recovery_keys: str) -> bytes:
    """Return a manifest with every type of secret, and with recovery keys."""
    content = json.loads(with_web_certificate())
    generated = {
        "rsa": {"Type": "cert-rsa", "Size": 2048, "Shared": True, "ValidFor": 30},
        "ecdsa": {"Type": "cert-ecdsa", "Size": 256, "Shared": True},
        "ed25519": {"Type": "cert-ed25519", "Shared": True},
    }
    content["Secrets"] |= generated
    content["Roles"]["read"]["ResourceNames"] += generated
    if recovery_keys:
        content["RecoveryKeys"] = recovery_keys
    return json.dumps(content).encode()


def wrapped(raw: bytes) -> dict[str, str]:
    """Return the body of a request that carries a manifest."""
    return {"manifest": b64(raw)}


def before_a_manifest(server: Server) -> Answers:
    """Play what happens until the first manifest is accepted."""
    answers: Answers = {}
    with asking(server, answers) as ask:
        for method, path in EVERYWHERE:
            ask(method, path)
        ask("POST", "/manifest", b"", note="empty")
        ask("POST", "/manifest", b"{", note="no JSON")
        ask("POST", "/manifest", {}, note="no manifest")
        ask("POST", "/manifest", {"manifest": "e30"}, note="no base64")
        ask("POST", "/manifest", {"manifest": "e30="}, note="not valid")
        keys = {"alice": rsa_public_pem(2048), "bob": rsa_public_pem(3072)}
        ask("POST", "/manifest", wrapped(full_manifest(**keys)), note="valid")
    return answers


def while_running(server: Server) -> Answers:
    """Play what a running coordinator answers."""
    answers: Answers = {}
    with asking(server, answers) as ask:
        for method, path in EVERYWHERE:
            ask(method, path)
        ask("POST", "/manifest", wrapped(b"{}"))
        ask("GET", "/secrets", by="writer", note="no name")
        ask("GET", "/secrets?s=note&s=shared&s=nothing", by="writer", note="no permission")
        ask("GET", "/secrets?s=note&s=key0&s=web", by="writer", note="not uploaded yet")
        ask("GET", "/secrets?s=shared&s=rsa&s=ecdsa&s=ed25519", by="reader", note="generated")
        ask("POST", "/secrets", b"", by="writer", note="empty")
        ask("POST", "/secrets", {"secrets": {}}, by="writer", note="no secret")
        key, long = {"key": b64(b"0123456789abcdef")}, {"key": b64(bytes(17))}
        for note, uploads, by in (
            ("no base64", {"note": {"key": "?"}, "web": {"cert": 1}}, "writer"),
            ("wrong sizes", {"key0": long, "key1": long}, "writer"),
            ("a key and a certificate", {"note": {**key, "cert": ""}}, "writer"),
            ("no permission", {"note": key, "shared": key}, "writer"),
            ("no role", {"note": key}, "nobody"),
            ("two keys", {"key0": key, "note": {"key": b64(b"text")}}, "writer"),
            ("a certificate", {"web": {"cert": b64(user("web").der)}}, "writer"),
        ):
            ask("POST", "/secrets", {"secrets": uploads}, by=by, note=note)
        ask("GET", "/secrets?s=note&s=key0&s=web", by="writer", note="uploaded")
        packages = wrapped(b'{"Packages":{"lib":{"SecurityVersion":4}}}')
        ask("POST", "/update", packages, note="no user")
        ask("POST", "/update", packages, by="reader", note="no permission")
        ask("POST", "/update", wrapped(b'{"Packages":{}}'), by="writer", note="no package")
        ask("POST", "/update", {"manifest": "?"}, by="writer", note="no base64")
        ask("POST", "/plan", packages, by="reader", note="no permission")
        ask("POST", "/plan", wrapped(b'{"Packages":{}}'), by="writer", note="no package")
        ask("POST", "/plan", packages, by="writer", note="a higher version")
        ask("POST", "/update", {**packages, "plan": ""}, by="writer", note="no digest")
        ask("POST", "/update", packages, by="writer", note="a higher version")
        ask("GET", "/update", note="after uploads and an update")
    return answers


def version_1(server: Server) -> Answers:
    """Play what version 1 answers, on a coordinator that runs."""
    answers: Answers = {}
    with asking(server, answers, prefix="") as ask:
        for path in ("/status", "/manifest", "/quote", "/secrets?s=note", "/update"):
            ask("GET", path)
        ask("POST", "/manifest", b"{}")
        ask("POST", "/recover", b"{}")
        ask("GET", "/recover")
        ask("GET", "/secrets", by="writer", note="no name")
        ask("GET", "/secrets?s=nothing", by="writer", note="no permission")
        ask("GET", "/secrets?s=note&s=web", by="writer")
        ask("POST", "/secrets", b"{", by="writer", note="no JSON")
        ask("POST", "/secrets", {}, by="writer", note="no secret")
        ask("POST", "/secrets", {"note": {"key": b64(b"text 1")}}, by="writer")
        ask("POST", "/update", b"{}", by="writer", note="no package")
        raised = {"packages": {"lib": {"SecurityVersion": 5}}}
        ask("POST", "/update", raised, by="reader", note="no permission")
        ask("POST", "/update", raised, by="writer")
        ask("GET", "/update", note="after an upload and an update")
    return answers


def in_recovery(server: Server) -> Answers:
    """Play what a coordinator answers whose sealing key is lost."""
    answers: Answers = {}
    with asking(server, answers) as ask:
        for method, path in EVERYWHERE:
            ask(method, path)
        ask("POST", "/manifest", {"manifest": "e30="}, note="not valid")
    return answers


def sign_quote(server: Server) -> Answers:
    """Play what a coordinator answers whose manifest lets it sign quotes."""
    with server.client() as client:
        quote = client.get(f"{V2}/quote").data["quote"]
    longer = b64(base64.b64decode(quote)[16:] + b"\0")  # raw: its message has no length in it
    answers: Answers = {}
    with asking(server, answers) as ask:
        for note, body in (
            ("empty", b""),
            ("no JSON", b"{"),
            ("no quote", {}),
            ("no base64", {"sgxQuote": "?"}),
            ("no text", {"sgxQuote": 1}),
            ("a byte too long", {"sgxQuote": longer}),
            ("valid", {"sgxQuote": quote}),
        ):
            ask("POST", "/sign-quote", body, note=note)
    return answers


def workloads(server: Server) -> Answers:
    """Play what a workload that joined is answered, and what operators read of it."""
    marbles = {"web": {"Package": "app", "MaxActivations": 1}}
    config = {"FeatureGates": ["MonotonicCounter"]}
    with server.client() as client:
        assert client.set_manifest(marble_manifest(marbles, Config=config)).status == 200
    workload = joined(server, "web", "11111111-2222-3333-4444-555555555555")
    answers: Answers = {}

    def known(name: str) -> User:
        return workload if name == "workload" else user(name)

    with asking(server, answers, known=known) as ask:
        counter = "/monotonic-counter"
        ask("POST", counter, {"name": "a", "value": 1}, note="nobody")
        ask("POST", counter, {"name": "a", "value": 1}, by="admin")
        ask("POST", counter, b"", by="workload", note="empty")
        ask("POST", counter, {"name": "n" * 257}, by="workload", note="a long name")
        ask("POST", counter, {"name": "a", "value": -1}, by="workload", note="negative")
        ask("POST", counter, {"name": "a", "value": 7}, by="workload", note="a new one")
        ask("POST", counter, {"name": "a", "value": 3}, by="workload", note="a lower value")
        ask("GET", "/activations")
        ask("GET", "/activations?from=x", by="admin", note="no number")
        ask("GET", "/activations", by="admin")
        ask("GET", "/activations?from=1", by="admin", note="beyond the last")
        ask("GET", "/counters", by="admin")
    return answers


@pytest.fixture(scope="module")
def played(
    servers: dict[Phase, Server], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """What the scenes of every golden file answered, with placeholders."""
    folder: Path = tmp_path_factory.mktemp("golden")
    with Server(folder / "data") as server:
        answers = {
            "before_a_manifest": before_a_manifest(server),
            "while_running": while_running(server),
            "version_1": version_1(server),
            "in_recovery": in_recovery(servers[Phase.RECOVERY]),
            "sign_quote": sign_quote(servers[Phase.RUNNING]),
        }
    with Server(folder / "workloads") as server:
        answers["workloads"] = workloads(server)
    with Server(folder / "other") as server, server.client() as client:
        without = client.post(f"{V2}/manifest", wrapped(full_manifest()))
        answers["before_a_manifest"]["POST /manifest: valid, without recovery keys"] = without
    return {
        name: {scene: settled(reply) for scene, reply in replies.items()}
        for name, replies in answers.items()
    }


@pytest.mark.parametrize(
    "name",
    [
        "before_a_manifest",
        "while_running",
        "version_1",
        "in_recovery",
        "sign_quote",
        "workloads",
    ],
)
def test_every_answer_is_the_golden_one(played: dict[str, dict[str, Any]], name: str) -> None:
    if is_writing():
        write(name, played[name])
    expected = golden(name)
    assert list(played[name]) == list(expected)
    for scene, answer in played[name].items():
        # As text: the order of keys is part of the interface.
        assert json.dumps(answer, indent=1) == json.dumps(expected[scene], indent=1), scene
