"""Bad queries, paths and methods on the live server: exact answers, connection usable after."""

import base64

import pytest
from support.peers.answers import as_nobody, as_writer, checked, observe
from support.process.server import Client, Reply, Server

pytestmark = pytest.mark.acceptance

NO_NAME = {
    "status": "fail",
    "data": {"s": "is missing or empty"},
    "message": "the query names no secret (name each secret: /api/v2/secrets?s=one&s=two)",
}


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?",
        "?s",
        "?s=",
        "?&&",
        "?s=&s=note",
        "?s=note&s",
        "?S=note",
        "?x=note",
        "?=note",
        "?s%00=note",
        "?s=%ff",
        "?s=%zz",
        "?s=%",
        "?s=note;s=note",
        "?secrets=note",
    ],
)
def test_a_query_that_names_no_secret_is_refused(running: Server, query: str) -> None:
    with as_writer(running) as client:
        reply = checked(client.get(f"/api/v2/secrets{query}"))
        assert (reply.status, reply.envelope) == (400, NO_NAME)


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("s=NOTE", '"NOTE"'),
        ("s=note&s=nix", '"nix"'),
        ("s=+note", '" note"'),
        ("s=note%00", '"note\\u0000"'),
        ("s=%1b[2J", '"\\u001b[2J"'),
        ("s=%E2%80%AEetalp", '"\\u202eetalp"'),
        ("s=note%26s=key0", '"note&s=key0"'),
        ("s=key0,key1", '"key0,key1"'),
        ("s=s=note", '"s=note"'),
        ("s=" + "n" * 5000, '"' + "n" * 100 + '..."'),
    ],
)
def test_an_unknown_name_is_refused_like_a_missing_permission(
    running: Server, query: str, shown: str
) -> None:
    with as_writer(running) as client:
        reply = checked(client.get(f"/api/v2/secrets?{query}"))
        assert (reply.status, reply.envelope) == (
            403,
            {
                "status": "error",
                "data": None,
                "message": f'user "writer" has no permission ReadSecret on: {shown}'
                " (give the user a role with this action and these resource names)",
            },
        )


def test_of_a_thousand_unknown_names_twenty_are_shown(running: Server) -> None:
    with as_writer(running) as client:
        reply = checked(client.get("/api/v2/secrets?" + "&".join(f"s=n{n}" for n in range(1000))))
        assert reply.status == 403
        assert reply.envelope["message"].count('"n') == 20
        assert len(reply.body) < 500


@pytest.mark.parametrize(
    "query",
    [
        "s=note&s=note",
        "s=%6e%6Fte",
        "s=note&&",
        "&s=note&x=%zz&y=;",
        "x=1&s=note&s=%ff",
        "%73=note",
    ],
)
def test_names_are_decoded_once_and_shown_once(running: Server, query: str) -> None:
    with as_writer(running) as client:
        assert list(client.get(f"/api/v2/secrets?{query}").data["secrets"]) == ["note"]


BAD_NONCE = "is not base64 in the URL alphabet (use letters, digits, - and _; padding is optional)"


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("nonce=A", BAD_NONCE),
        ("nonce=AB", BAD_NONCE),
        ("nonce=AA=", BAD_NONCE),
        ("nonce=AA===", BAD_NONCE),
        ("nonce=====", BAD_NONCE),
        ("nonce=AA%3D%3D%3D", BAD_NONCE),
        ("nonce=AA==AAAA", BAD_NONCE),
        ("nonce=AA/A", BAD_NONCE),
        ("nonce=AA+A", BAD_NONCE),
        ("nonce=AA%2BA", BAD_NONCE),
        ("nonce=AA%0AAA", BAD_NONCE),
        ("nonce=%20AAA", BAD_NONCE),
        ("nonce=AA%00A", BAD_NONCE),
        ("nonce=%C3%A9AAA", BAD_NONCE),
        ("nonce=" + "A" * 1367, "is longer than 1024 bytes (send at most 1024 bytes)"),
        ("nonce=" + "A" * 16000, "is longer than 1024 bytes (send at most 1024 bytes)"),
    ],
)
def test_a_bad_nonce_is_refused(running: Server, query: str, reason: str) -> None:
    with as_nobody(running) as client:
        reply = checked(client.get(f"/api/v2/quote?{query}"))
        assert (reply.status, reply.envelope) == (
            400,
            {"status": "fail", "data": {"nonce": reason}, "message": f"the nonce {reason}"},
        )


@pytest.mark.parametrize(
    "query", ["nonce=AAAA&nonce=AAAA", "nonce=&nonce=AAAA", "nonce=AAAA&x=1&%6eonce="]
)
def test_two_nonces_are_refused(running: Server, query: str) -> None:
    with as_nobody(running) as client:
        reply = checked(client.get(f"/api/v2/quote?{query}"))
        assert (reply.status, reply.envelope) == (
            400,
            {
                "status": "fail",
                "data": {"nonce": "is given more than once"},
                "message": "the query has more than one nonce (send the parameter nonce once)",
            },
        )


@pytest.mark.parametrize("padding", ["==", "", "%3D%3D"])
def test_padding_of_a_nonce_makes_no_difference(running: Server, padding: str) -> None:
    nonce = base64.urlsafe_b64encode(b"\xfb\xff" * 512).decode().rstrip("=")
    with as_nobody(running) as client:
        digests = {
            base64.b64decode(client.get(f"/api/v2/quote?nonce={nonce}{pad}").data["quote"])[384:416]
            for pad in (padding, "")
        }
        without = base64.b64decode(client.get("/api/v2/quote").data["quote"])[384:416]
    assert len(digests) == 1
    assert without not in digests


@pytest.mark.parametrize("query", ["", "?", "?nonce=", "?Nonce=!", "?nonce=%zz", "?x=1"])
def test_without_a_nonce_the_quote_is_the_one_of_the_start(running: Server, query: str) -> None:
    with as_nobody(running) as client:
        assert client.get(f"/api/v2/quote{query}").data == client.get("/api/v2/quote").data


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("HEAD", "/api/v2/status", "GET"),
        ("OPTIONS", "/api/v2/secrets", "GET, POST"),
        ("PUT", "/api/v2/manifest", "GET, POST"),
        ("PATCH", "/api/v2/update", "GET, POST"),
        ("TRACE", "/api/v2/quote", "GET"),
        ("POST", "/api/v2/status", "GET"),
        ("GET", "/api/v2/recover", "POST"),
        ("DELETE", "/status", "GET"),
        ("GET", "/recover", "POST"),
        ("get", "/api/v2/status", "GET"),
        ("BREW", "/api/v2/status?a=b", "GET"),
        ("!#$%&'*+-.^_`|~", "/api/v2/%73tatus", "GET"),
        ("GET", "/", None),
        ("POST", "/", None),
        ("GET", "/api/v2/status/", None),
        ("GET", "//api/v2/status", None),
        ("GET", "/api//v2/status", None),
        ("GET", "/api/./v2/status", None),
        ("GET", "/api/v2/../v2/status", None),
        ("GET", "/api/v2/status%3Fa", None),
        ("GET", "/api/v2/status%20", None),
        ("GET", "/api/v2/%2573tatus", None),
        ("GET", "/API/V2/STATUS", None),
        ("GET", "/api/v3/status", None),
        ("GET", "/api/v2", None),
        ("GET", "/sign-quote", None),
        ("GET", "/" + "x" * 16_000, None),
        ("GET", "/%E2%80%AE", None),
        ("GET", "/api/v2/status;a=b", None),
    ],
)
def test_what_is_not_served_is_405_and_the_connection_continues(
    running: Server, method: str, path: str, allowed: str | None
) -> None:
    with as_nobody(running) as client:
        reply = client.call(method, path)
        assert reply.status == 405
        assert reply.headers.get("allow") == allowed
        assert "connection" not in reply.headers
        if method == "HEAD":
            assert reply.body == b""
        else:
            envelope = checked(reply).envelope
            assert (envelope["status"], envelope["data"]) == ("error", None)
            assert method in envelope["message"]
            assert len(envelope["message"]) < 1500
        assert client.get("/api/v2/status").status == 200


NO_PATH = (
    "the request target is not an absolute path"
    " (begin the path with a slash, and remove the part from # on)"
)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/api/v2/status%00", "the path has a control character (remove the control character)"),
        ("/%1b[2J", "the path has a control character (remove the control character)"),
        (
            "/api/v2/%zz",
            "the path has a malformed percent escape (write each escape as % and two hex digits)",
        ),
        (
            "/api/v2/status%",
            "the path has a malformed percent escape (write each escape as % and two hex digits)",
        ),
        ("/%ff", "the path is not UTF-8 (encode the path in UTF-8, then escape the bytes)"),
        ("/%c0%af", "the path is not UTF-8 (encode the path in UTF-8, then escape the bytes)"),
        *[
            (target, NO_PATH)
            for target in ("*", "api/v2/status", "https://localhost/", "/api/v2/status#x")
        ],
    ],
)
def test_a_target_that_cannot_be_read_is_refused_and_the_connection_closed(
    running: Server, path: str, message: str
) -> None:
    with as_nobody(running) as client:
        reply = checked(client.get(path))
        assert (reply.status, reply.envelope) == (
            400,
            {"status": "error", "data": None, "message": message},
        )
        assert reply.headers["connection"] == "close"


def test_escapes_in_a_path_are_decoded_before_it_is_matched(running: Server) -> None:
    with as_nobody(running) as client:
        for path in ("/api/v2/%73tatus", "/api%2fv2%2Fstatus", "/%61pi/v2/status"):
            assert client.get(path).data["status"] == 3


def _with_body(client: Client, method: str, path: str) -> Reply:
    return client.call(method, path, b'{"manifest":"e30="}')


def test_a_body_nobody_asked_for_is_not_treated_as_the_next_request(running: Server) -> None:
    with as_writer(running) as client:
        before = observe(client)
        for method, path in (
            ("GET", "/api/v2/status"),
            ("GET", "/api/v2/secrets?s=note"),
            ("GET", "/api/v2/quote?nonce=AAAA"),
            ("PUT", "/api/v2/manifest"),
            ("POST", "/nowhere"),
        ):
            checked(_with_body(client, method, path))
            assert observe(client) == before


_SWITCHES = ("", "?newest=true", "?newest=false", "?other")


@pytest.mark.parametrize("query", ["newest", "newest=", "newest=yes", "newest=true&newest=false"])
def test_newest_is_true_or_false(running: Server, query: str) -> None:
    with running.client() as client:
        reply = checked(client.get(f"/api/v2/log/checkpoint?{query}"))
        assert reply.status == 400
        assert reply.envelope["data"] == {"newest": "must be true or false, once"}
        notes = {client.get(f"/api/v2/log/checkpoint{each}").body for each in _SWITCHES}
        assert len(notes) == 1  # without witnesses
