"""Updates over HTTPS, by users with their certificates, in both versions of the interface."""

import base64
import hashlib
import json
import re
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from support.peers.answers import checked
from support.peers.people import People, deployed
from support.process.server import Client, Reply, Server
from support.samples.deployment import User, user
from support.samples.updates import VERSIONS, Api, Change, holder_key, raise_version, together

pytestmark = pytest.mark.acceptance

FIRST, NEW, OTHER = together(), together(word="new"), together(word="other")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A coordinator whose manifest stays the first one."""
    with deployed(tmp_path_factory.mktemp("updates")) as people:
        yield people.server


@pytest.fixture
def people(shared: Server) -> Iterator[People]:
    """Its people; nothing is pending, before and after, and the first manifest is in force."""
    with ExitStack() as stack:
        people = People(shared, stack)
        yield people
        Api(2).cancel(people.alice)
        assert in_force(people.nobody) == FIRST


@pytest.fixture(params=VERSIONS, ids=["version 1", "version 2"])
def api(request: pytest.FixtureRequest) -> Api:
    return Api(request.param)


def in_force(client: Client) -> bytes:
    return base64.b64decode(client.get("/api/v2/manifest").data["manifest"])


def refused(reply: Reply, status: int, word: str = "error") -> str:
    """Return the message of a refusal with this HTTP status."""
    found = (checked(reply).status, reply.envelope["status"])
    assert found == (status, word), reply.body
    message = reply.envelope["message"]
    assert isinstance(message, str)
    return message


def entries(client: Client) -> list[dict[str, Any]]:
    """Return the update log without its times, which have their place and form."""
    found = []
    for line in client.get("/api/v2/update").data["updateLog"]:
        entry = json.loads(line)
        assert list(entry)[:2] == ["time", "update"]
        assert _TIME.fullmatch(entry.pop("time"))
        found.append(entry)
    return found


def fingerprint(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


# --- who may, and in which order it is judged ---


def test_anonymous_clients_neither_update_nor_acknowledge_nor_cancel(
    people: People, api: Api
) -> None:
    assert api.update(people.alice, NEW).status == 200
    word = "fail" if api.version == 2 else "error"
    for client in (people.nobody, people.stranger):
        refused(api.update(client, NEW), 401, word)
        refused(api.acknowledge(client, NEW), 401, word)
        refused(api.cancel(client), 401, word)
    assert api.pending(people.nobody).data["missingUsers"] == ["bob", "carol"]


@pytest.mark.parametrize("name", ["writer", "releaser"])
def test_users_without_the_permission_can_do_nothing_but_look(
    people: People, api: Api, name: str
) -> None:
    client = getattr(people, name)
    assert "UpdateManifest" in refused(api.update(client, NEW), 403)
    refused(api.cancel(client), 403)  # also where nothing is pending
    assert api.update(people.alice, NEW).status == 200
    refused(api.acknowledge(client, NEW), 403)
    refused(api.acknowledge(client, OTHER), 403)
    refused(api.cancel(client), 403)
    assert base64.b64decode(api.pending(client).data["manifest"]) == NEW


def test_where_nothing_is_pending_there_is_nothing_to_see_acknowledge_or_cancel(
    people: People, api: Api
) -> None:
    before = entries(people.nobody)
    assert "no update is pending" in refused(api.pending(people.nobody), 404)
    assert "no update is pending" in refused(api.acknowledge(people.alice, NEW), 404)
    assert "no update is pending" in refused(api.acknowledge(people.writer, NEW), 404)
    assert "no update is pending" in refused(api.cancel(people.alice), 404)
    assert entries(people.nobody) == before


@pytest.mark.parametrize("raw", [b"{", b"[]", b"\xff", b"null"])
def test_what_is_not_a_manifest_is_not_an_update(people: People, api: Api, raw: bytes) -> None:
    refused(api.update(people.alice, raw), 400)
    assert api.pending(people.nobody).status == 404


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"manifest":"%"}', b'{"manifest":7}'])
@pytest.mark.parametrize("path", ["/api/v2/update", "/api/v2/update-manifest"])
def test_a_body_of_version_2_that_cannot_be_read_is_a_failure_of_the_client(
    people: People, path: str, body: bytes
) -> None:
    assert Api(2).update(people.alice, NEW).status == 200
    refused(people.bob.call("POST", path, body), 400, "fail")
    assert Api(2).pending(people.nobody).data["missingUsers"] == ["bob", "carol"]


def test_every_problem_of_a_new_manifest_is_told_and_nothing_is_pending(
    people: People, api: Api
) -> None:
    def change(document: dict[str, Any]) -> None:
        document["Marbles"]["app"]["Package"] = "missing"
        document["Config"]["UpdateThreshold"] = 9

    reply = api.update(people.alice, together(change))
    refused(reply, 400)
    places = {problem["at"] for problem in reply.envelope["data"]["problems"]}
    assert places >= {"Marbles.app.Package", "Config.UpdateThreshold"}
    assert api.pending(people.nobody).status == 404


# --- two of three ---


def test_an_update_waits_and_can_be_seen_by_anybody(people: People, api: Api) -> None:
    reply = checked(api.update(people.carol, NEW))
    assert reply.data == {"missingAcknowledgments": 1, "missingUsers": ["alice", "bob"]}
    seen = api.pending(people.nobody).data
    assert set(seen) >= {"manifest", "message", "missingUsers"}
    assert base64.b64decode(seen["manifest"]) == NEW
    assert seen["missingUsers"] == ["alice", "bob"]
    assert seen["message"].split()[0] == "1"
    assert in_force(people.nobody) == FIRST


def test_while_one_is_pending_no_update_is_taken(people: People, api: Api) -> None:
    assert api.update(people.alice, NEW).status == 200
    for client, raw in (
        (people.alice, NEW),
        (people.bob, OTHER),
        (people.releaser, raise_version(4)),
    ):
        assert "pending" in refused(api.update(client, raw), 409)
    assert base64.b64decode(api.pending(people.nobody).data["manifest"]) == NEW


def test_an_acknowledgement_is_of_exactly_these_bytes(people: People, api: Api) -> None:
    assert api.update(people.alice, NEW).status == 200
    for other in (OTHER, NEW + b" ", NEW + b"\n", b" " + NEW, FIRST, NEW[:-1], b"{}"):
        message = refused(api.acknowledge(people.bob, other), 409)
        assert "byte for byte" in message
        assert fingerprint(NEW) in message
    assert api.pending(people.nobody).data["missingUsers"] == ["bob", "carol"]


def test_acknowledging_again_succeeds_changes_nothing_and_is_logged(
    people: People, api: Api
) -> None:
    assert api.update(people.alice, NEW).status == 200
    length = len(entries(people.nobody))
    for further in (1, 2):
        data = checked(api.acknowledge(people.alice, NEW)).data
        assert data["message"].split()[0] == "1"
        assert data["missingUsers"] == ["bob", "carol"]
        log = entries(people.nobody)
        assert len(log) == length + further
        assert log[-1]["user"] == "alice"
        assert log[-1]["missingAcknowledgments"] == 1
    assert in_force(people.nobody) == FIRST


def test_any_of_them_cancels_and_then_another_can_be_proposed(people: People, api: Api) -> None:
    assert api.update(people.alice, NEW).status == 200
    data = checked(api.cancel(people.carol)).data
    assert isinstance(data["message"] if api.version == 2 else data, str)
    assert entries(people.nobody)[-1] == {
        "update": "Manifest update cancelled",
        "user": "carol",
        "manifestFingerprint": fingerprint(NEW),
    }
    refused(api.cancel(people.alice), 404)
    refused(api.acknowledge(people.bob, NEW), 404)
    assert api.update(people.bob, OTHER).data["missingUsers"] == ["alice", "carol"]


def test_the_second_of_two_applies_it_and_the_log_has_every_step(tmp_path: Path, api: Api) -> None:
    with deployed(tmp_path) as people:
        server = people.server
        old = people.nobody.get("/api/v2/quote").data["cert"].split("-----BEGIN")
        epoch = people.nobody.get("/api/v2/status").headers["keyhouse-state"].split(".")[0]
        assert api.update(people.alice, NEW).data["missingAcknowledgments"] == 1
        data = checked(api.acknowledge(people.bob, NEW)).data
        assert data["message"].split()[0] == "All"
        assert (data["missingAcknowledgments"], data["missingUsers"]) == (0, [])
        assert "recoverySecrets" not in data
        assert in_force(people.nobody) == NEW
        refused(api.pending(people.nobody), 404)
        refused(api.acknowledge(people.carol, NEW), 404)
        prints = {"manifestFingerprint": fingerprint(NEW)}
        log = entries(people.nobody)
        assert log == [
            {"update": "Initial manifest set"},
            {
                "update": "Manifest update initiated",
                "user": "alice",
                "missingAcknowledgments": 1,
                "missingUsers": ["bob", "carol"],
                **prints,
            },
            {
                "update": "Manifest update acknowledged",
                "user": "bob",
                "missingAcknowledgments": 0,
                "missingUsers": ["carol"],
                **prints,
            },
            {"update": "Manifest updated", **prints},
        ]
        new = people.nobody.get("/api/v2/quote").data["cert"].split("-----BEGIN")
        assert (new[2], new[1] == old[1]) == (old[2], False)  # same root, another intermediate
        state = people.nobody.get("/api/v2/status").headers["keyhouse-state"]
        assert int(state.split(".")[0]) == int(epoch) + 1
        server.kill()
        with server, server.client() as client:
            assert in_force(client) == NEW
            assert entries(client) == log


def test_a_kill_between_acknowledgements_loses_none_of_them(tmp_path: Path) -> None:
    first, new = together(UpdateThreshold=0), together(word="new", UpdateThreshold=0)
    server = Server(tmp_path / "data")
    with server, server.client() as nobody:
        assert nobody.set_manifest(first).status == 200
        server.kill()
    steps = (
        ("alice", Api(2).update, ["bob", "carol"]),
        ("carol", Api(1).acknowledge, ["bob"]),
    )
    for name, step, missing in steps:
        with server, server.client(user(name)) as client:
            assert step(client, new).data["missingUsers"] == missing
            server.kill()
        with server, server.client() as nobody:
            assert in_force(nobody) == first
            assert Api(2).pending(nobody).data["missingUsers"] == missing
            server.kill()
    with server, server.client(user("bob")) as client:
        assert Api(2).acknowledge(client, new).data["message"].split()[0] == "All"
        server.kill()
    with server, server.client() as nobody:
        assert in_force(nobody) == new
        assert entries(nobody)[-1]["update"] == "Manifest updated"


def test_one_who_is_enough_applies_at_once(tmp_path: Path, api: Api) -> None:
    with deployed(tmp_path, together(UpdateThreshold=1)) as people:
        data = checked(api.update(people.bob, NEW)).data
        assert data == {"missingAcknowledgments": 0, "missingUsers": []}
        prints = {"manifestFingerprint": fingerprint(NEW)}
        assert entries(people.nobody)[1:] == [
            {"update": "Manifest update initiated", "user": "bob", **prints},
            {"update": "Manifest updated", **prints},
        ]
        assert in_force(people.nobody) == NEW
        # From now on the new manifest's threshold counts: two.
        assert api.update(people.bob, OTHER).data["missingAcknowledgments"] == 1


def test_a_package_update_needs_no_agreement_and_a_full_one_discards_it(tmp_path: Path) -> None:
    api = Api(2)
    with deployed(tmp_path) as people:
        data = checked(api.update(people.releaser, raise_version(9))).data
        assert data == {"missingAcknowledgments": 0, "missingUsers": []}
        assert in_force(people.nobody) == FIRST
        assert entries(people.nobody)[-1] == {
            "update": "SecurityVersion increased",
            "user": "releaser",
            "package": "app",
            "new version": 9,
        }
        reply = api.update(people.alice, NEW)
        assert "it lowers SecurityVersion of app from 9 to 3" in reply.envelope["message"]
        data = api.acknowledge(people.bob, NEW).data
        assert "it lowers SecurityVersion of app from 9 to 3" in data["message"]
        assert "message" not in checked(api.update(people.releaser, raise_version(4))).envelope
        warned = checked(api.update(people.releaser, raise_version(65_536))).envelope
        assert warned["status"] == "success"
        assert "Packages.app.SecurityVersion: is over 65535" in warned["message"]


# --- recovery secrets ---


def _opened(name: str, secret: str) -> bytes:
    scheme = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)
    return holder_key(name).decrypt(base64.b64decode(secret), scheme)


@pytest.mark.parametrize(
    ("before", "after", "threshold"),
    [(("rk0",), ("rk1",), 0), (("rk0", "rk1"), ("rk0", "rk1", "rk2"), 2), ((), ("rk0",), 0)],
    ids=["another key", "two of three", "the first keys"],
)
def test_changed_recovery_keys_give_new_secrets_to_the_call_that_applied_alone(
    tmp_path: Path, api: Api, before: tuple[str, ...], after: tuple[str, ...], threshold: int
) -> None:
    new = together(holders=after, RecoveryThreshold=threshold)
    with deployed(tmp_path, together(holders=before)) as people:
        assert "recoverySecrets" not in api.update(people.alice, new).data
        assert "recoverySecrets" not in api.acknowledge(people.alice, new).data
        secrets = api.acknowledge(people.carol, new).data["recoverySecrets"]
        assert list(secrets) == list(after)
        for name, secret in secrets.items():
            assert len(_opened(name, secret)) in {32, 33}
        refused(api.acknowledge(people.bob, new), 404)
        again = together(holders=after, word="again", RecoveryThreshold=threshold)
        assert api.update(people.alice, again).status == 200
        assert "recoverySecrets" not in api.acknowledge(people.bob, again).data


def test_one_who_is_enough_gets_the_secrets_from_the_update_itself(
    tmp_path: Path, api: Api
) -> None:
    with deployed(tmp_path, together(holders=["rk0"], UpdateThreshold=1)) as people:
        data = api.update(people.alice, together(holders=["rk1"], UpdateThreshold=1)).data
        assert list(data["recoverySecrets"]) == ["rk1"]


# --- who is out, who is in ---


def _without(*names: str, word: str = "") -> bytes:
    def change(document: dict[str, Any]) -> None:
        for name in names:
            del document["Users"][name]

    return together(change, word=word)


def _renamed(name: str, certificate: User) -> Change:
    def change(document: dict[str, Any]) -> None:
        document["Users"][name]["Certificate"] = certificate.pem.decode()

    return change


def test_a_removed_user_is_out_on_the_connection_that_was_authorized_before(tmp_path: Path) -> None:
    api = Api(2)
    new = _without("carol", "writer", word="new")
    with deployed(tmp_path) as people:
        server = people.server
        assert people.writer.get("/api/v2/secrets?s=note").status == 200
        assert api.update(people.carol, new).status == 200
        assert people.writer.get("/api/v2/secrets?s=note").status == 200
        assert api.acknowledge(people.bob, new).status == 200
        for client in (people.writer, people.carol):
            refused(client.get("/api/v2/secrets?s=note"), 401, "fail")
            refused(client.upload({"note": b"x"}), 401, "fail")
            refused(Api(2).update(client, OTHER), 401, "fail")
            refused(Api(2).cancel(client), 401, "fail")
        with server.client(user("carol")) as again:
            refused(Api(2).update(again, OTHER), 401, "fail")
        assert api.update(people.alice, OTHER).data["missingUsers"] == ["bob"]


def test_a_new_certificate_lets_its_owner_in_and_the_old_one_out(tmp_path: Path) -> None:
    api = Api(1)
    new = together(_renamed("writer", user("writer's next")))
    with deployed(tmp_path) as people:
        server = people.server
        early = server.client(user("writer's next"))
        refused(early.get("/api/v2/secrets?s=note"), 401, "fail")
        assert people.writer.upload({"note": b"kept"}).status == 200
        assert api.update(people.alice, new).status == 200
        assert api.acknowledge(people.bob, new).status == 200
        assert early.secrets(["note"]) == {"note": b"kept"}
        refused(people.writer.get("/api/v2/secrets?s=note"), 401, "fail")
        early.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_removed_user_is_out_on_resumed_sessions(tmp_path: Path, version: ssl.TLSVersion) -> None:
    new = _without("writer", word="new")
    pem = tmp_path / "writer.pem"
    pem.write_bytes(user("writer").pem + user("writer").key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    context.load_cert_chain(pem)
    with deployed(tmp_path) as people:
        server = people.server
        first, session, _ = _asked(server, context, None)
        again, session, resumed = _asked(server, context, session)
        assert (first, again, resumed) == (200, 200, True)
        assert Api(2).update(people.alice, new).status == 200
        assert Api(2).acknowledge(people.bob, new).status == 200
        after, _, _ = _asked(server, context, session)
        assert after == 401


def _asked(
    server: Server, context: ssl.SSLContext, session: ssl.SSLSession | None
) -> tuple[int, ssl.SSLSession | None, bool | None]:
    """Ask for a secret; return the HTTP status, the session, and whether it was resumed."""
    with (
        socket.create_connection(("127.0.0.1", server.port)) as plain,
        context.wrap_socket(plain, session=session) as secured,
    ):
        secured.sendall(b"GET /api/v2/secrets?s=note HTTP/1.1\r\nHost: localhost\r\n\r\n")
        status = int(secured.recv(1000).split(b" ", 2)[1])
        return status, secured.session, secured.session_reused


def test_who_counts_is_as_it_was_when_the_update_was_proposed(tmp_path: Path) -> None:
    """The list is of the manifest in force: new users of the pending one are not on it."""
    api = Api(2)
    new = together(updaters=("alice", "dave"), word="new")
    with deployed(tmp_path) as people:
        data = api.update(people.alice, new).data
        assert data["missingUsers"] == ["bob", "carol"]
        refused(api.acknowledge(people.dave, new), 401, "fail")
        assert api.acknowledge(people.carol, new).status == 200
        assert api.update(people.dave, OTHER).data["missingUsers"] == ["alice"]
        refused(Api(2).acknowledge(people.carol, OTHER), 401, "fail")


def test_of_two_proposals_at_once_one_is_taken(tmp_path: Path) -> None:
    api = Api(2)
    with deployed(tmp_path) as people:
        asked = {people.alice: NEW, people.bob: OTHER}
        with ThreadPoolExecutor(2) as threads:
            replies = list(threads.map(api.update, asked, asked.values()))
        assert sorted(reply.status for reply in replies) == [200, 409]
        taken = list(asked.values())[[reply.status for reply in replies].index(200)]
        assert base64.b64decode(api.pending(people.nobody).data["manifest"]) == taken


def test_of_two_acknowledgements_at_once_the_one_that_is_needed_applies_it(
    tmp_path: Path,
) -> None:
    api = Api(1)
    with deployed(tmp_path) as people:
        assert api.update(people.alice, NEW).status == 200
        late = [people.bob, people.carol]
        with ThreadPoolExecutor(2) as threads:
            replies = list(threads.map(api.acknowledge, late, [NEW, NEW]))
        assert sorted(reply.status for reply in replies) == [200, 404]
        assert in_force(people.nobody) == NEW
        updates = [entry["update"] for entry in entries(people.nobody)]
        assert updates.count("Manifest updated") == 1


def test_version_1_and_2_see_the_same_update(tmp_path: Path) -> None:
    with deployed(tmp_path) as people:
        assert Api(1).update(people.alice, NEW).status == 200
        assert Api(1).pending(people.nobody).data == Api(2).pending(people.nobody).data
        assert Api(2).acknowledge(people.bob, NEW).status == 200
        assert in_force(people.nobody) == NEW
