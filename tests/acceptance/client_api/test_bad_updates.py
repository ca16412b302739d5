"""Package updates that are refused, in both versions of the interface; and bodies of version 1."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.peers.answers import as_writer, b64, checked, observe, with_web_certificate
from support.process.server import Client, Reply, Server
from support.samples.deployment import user

from keyhouse.coordinator import Phase

pytestmark = pytest.mark.acceptance

VERSION = "Packages.lib.SecurityVersion"
RANGE = "must be an integer from 0 to 18446744073709551615"
ALONE = "write only SecurityVersion, or upload a complete manifest"
TWICE = "keep one of them; names of fields are the same in any case"
UPDATE, MANIFEST = "the package update", "the manifest"

Found = tuple[str, str, str]

BAD_UPDATES: dict[str, tuple[Any, str, Found]] = {
    "no JSON": (b"{", MANIFEST, ("", "is not JSON, line 1, column 2", "")),
    "no UTF-8": (b'{"\xff":1}', MANIFEST, ("", "is not UTF-8, byte 3", "")),
    "a list": ([], MANIFEST, ("", "is a list, must be an object", "")),
    "text after it": (
        b'{"Packages":{}} {}',
        MANIFEST,
        ("", "has further text after its end, line 1, column 16", ""),
    ),
    "nothing": ({}, UPDATE, ("Packages", "is empty", "name at least one package")),
    "no package": ({"Packages": {}}, UPDATE, ("Packages", "is empty", "name at least one package")),
    "no version": ({"lib": {}}, UPDATE, (VERSION, "is missing", "write the new version")),
    "null": ({"lib": None}, UPDATE, (VERSION, "is missing", "write the new version")),
    "a string": (
        {"lib": {"SecurityVersion": "5"}},
        MANIFEST,
        (VERSION, f"is a string, {RANGE}", ""),
    ),
    "a fraction": (
        {"lib": {"SecurityVersion": 5.0}},
        MANIFEST,
        (VERSION, f"has a fraction or an exponent, {RANGE}", ""),
    ),
    "a negative version": (
        {"lib": {"SecurityVersion": -1}},
        MANIFEST,
        (VERSION, f"is out of range, {RANGE}", ""),
    ),
    "a lower version": (
        {"lib": {"SecurityVersion": 2}},
        UPDATE,
        (
            VERSION,
            "is 2, must be 3 (the version in force) or higher",
            "write the version of the new build",
        ),
    ),
    "64 bits and one more": (
        {"lib": {"SecurityVersion": 2**64}},
        MANIFEST,
        (VERSION, f"is out of range, {RANGE}", ""),
    ),
    "a million digits": (
        b'{"Packages":{"lib":{"SecurityVersion":' + b"9" * 10**6 + b"}}}",
        MANIFEST,
        (VERSION, f"is out of range, {RANGE}", ""),
    ),
    "another product": (
        {"lib": {"SecurityVersion": 5, "ProductID": 2}},
        UPDATE,
        ("Packages.lib.ProductID", "cannot be changed by a package update", ALONE),
    ),
    "debug": (
        {"lib": {"SecurityVersion": 5, "Debug": True}},
        UPDATE,
        ("Packages.lib.Debug", "cannot be changed by a package update", ALONE),
    ),
    "a version for a package that UniqueID identifies": (
        {"app": {"SecurityVersion": 5}},
        UPDATE,
        (
            "Packages.app.SecurityVersion",
            "cannot be added to a package that UniqueID or TDX identifies",
            "upload a complete manifest with the new identity",
        ),
    ),
    "two versions": (
        b'{"Packages":{"lib":{"SecurityVersion":5,"securityversion":6}}}',
        UPDATE,
        (VERSION, "is given more than once", TWICE),
    ),
    "a package twice": (
        b'{"Packages":{"lib":{"SecurityVersion":5},"lib":{"SecurityVersion":6}}}',
        UPDATE,
        ("Packages.lib", "is given more than once", TWICE),
    ),
}


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A coordinator whose writer may raise versions."""
    with Server(tmp_path_factory.mktemp("updates") / "data") as server:
        with server.client() as client:
            assert client.set_manifest(with_web_certificate()).status == 200
        yield server


@pytest.fixture
def writing(serving: Server) -> Iterator[Client]:
    """A connection of the writer; at the end nothing has changed."""
    with as_writer(serving) as client:
        before = observe(client)
        yield client
        assert observe(client) == before


def _raw(update: Any) -> bytes:
    if isinstance(update, bytes):
        return update
    named = isinstance(update, dict) and update and "Packages" not in update
    return json.dumps({"Packages": update} if named else update).encode()


def _both(client: Client, raw: bytes) -> list[Reply]:
    """Send an update to both versions of the interface."""
    body = json.dumps({"manifest": b64(raw)}).encode()
    return [
        checked(client.call("POST", "/api/v2/update", body)),
        checked(client.call("POST", "/update", raw)),
    ]


@pytest.mark.parametrize("name", BAD_UPDATES)
def test_a_bad_package_update_is_refused_by_both_versions(writing: Client, name: str) -> None:
    update, what, (place, problem, hint) = BAD_UPDATES[name]
    for reply in _both(writing, _raw(update)):
        where, remedy = f"{place}: " if place else "", f" ({hint})" if hint else ""
        assert (reply.status, reply.envelope) == (
            400,
            {
                "status": "error",
                "data": {"problems": [{"at": place, "problem": problem, "hint": hint}]},
                "message": f"{what}: {where}{problem}{remedy}",
            },
        )


def test_one_package_without_permission_refuses_the_whole_update(writing: Client) -> None:
    update = {"lib": {"SecurityVersion": 5}, "nix": {"SecurityVersion": -0}}
    for reply in _both(writing, _raw(update)):
        assert (reply.status, reply.envelope["status"]) == (403, "error")
        assert 'UpdateSecurityVersion on: "nix" (' in reply.envelope["message"]


def test_users_without_the_permission_and_anonymous_clients_raise_nothing(serving: Server) -> None:
    raw = _raw({"lib": {"SecurityVersion": 5}})
    for who, status in (("reader", 403), ("nobody", 403), ("a stranger", 401)):
        with serving.client(user(who)) as client:
            assert [reply.status for reply in _both(client, raw)] == [status, status]


@pytest.mark.parametrize(
    ("body", "data"),
    [
        (b"", {"body": "is empty"}),
        (b"[]", {"body": "is a list, must be an object"}),
        (b'{"note":5}', {"note": "is a number, must be an object"}),
        (b'{"note":{"key":"AAA"}}', {"note.key": "is not standard base64 with padding"}),
        (
            b'{"note":{"key":"AAAA"}} x',
            {"body": "has further text after its end, line 1, column 24"},
        ),
    ],
)
def test_a_bad_upload_of_version_1_is_an_error(
    writing: Client, body: bytes, data: dict[str, str]
) -> None:
    reply = checked(writing.call("POST", "/secrets", body))
    assert reply.status == 400
    assert (reply.envelope["status"], reply.envelope["data"]) == ("error", data)


def test_version_1_never_answers_fail(servers: dict[Phase, Server]) -> None:
    for server in servers.values():
        with server.client(user("writer")) as client:
            for method, path, body in (
                ("GET", "/secrets", None),
                ("POST", "/secrets", b"\xff"),
                ("POST", "/manifest", b"[" * 100),
                ("POST", "/update", b""),
                ("POST", "/recover", b"{}"),
                ("GET", "/secrets?s=", None),
            ):
                assert checked(client.call(method, path, body)).envelope["status"] == "error"
        with server.client() as client:
            assert checked(client.get("/secrets?s=a")).envelope["status"] == "error"
            client.connection.putrequest("POST", "/manifest")
            client.connection.putheader("Content-Length", "99999999")
            client.connection.endheaders()
            answer = client.connection.getresponse()
            assert answer.status in {409, 413}
            assert json.loads(answer.read())["status"] == "error"
