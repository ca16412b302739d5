"""Bad bodies on the live server: what each gets, to the letter, and that nothing changed."""

import json
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from support.peers.answers import Observed, as_nobody, as_writer, b64, checked, observe
from support.process.server import Client, Reply, Server
from support.samples.deployment import manifest

from keyhouse.coordinator import Phase

pytestmark = pytest.mark.acceptance

MANIFEST = "/api/v2/manifest"
SECRETS = "/api/v2/secrets"

BASE64 = "is not standard base64 with padding"
BASE64_HINT = "use letters, digits, + and /, with = as padding"
NO_BYTE = "holds a number that is not a byte (0 to 255)"
NO_MANIFEST = (
    "",
    "is missing or empty",
    'send {"manifest": its JSON text in base64}',
)
NO_SECRETS = ("secrets", "is missing or empty", "send at least one secret by its name")
DEEP = "is nested deeper than 64 levels"
SURROGATE = "holds half of a surrogate pair (\\ud800 to \\udfff)"
CONSTANT = "holds NaN or Infinity, which are not JSON"
# From Python 3.13, the JSON module names the comma and not the bracket after the comma.
_AFTER_A_COMMA = 7 if sys.version_info >= (3, 13) else 8


class Row(NamedTuple):
    """A body, and the place, the problem and the hint of its refusal."""

    body: bytes
    at: str
    problem: str
    hint: str = ""


NO_JSON = {
    "a list": Row(b"[]", "", "is a list, must be an object"),
    "a string": Row(b'"x"', "", "is a string, must be an object"),
    "a number": Row(b"5", "", "is a number, must be an object"),
    "a fraction": Row(b"1e999", "", "has a fraction or an exponent, must be an object"),
    "true": Row(b"true", "", "is true or false, must be an object"),
    "words": Row(b"manifest=1", "", "is not JSON, line 1, column 1"),
    "a zero byte": Row(b"\0", "", "is not JSON, line 1, column 1"),
    "single quotes": Row(b"{'a':1}", "", "is not JSON, line 1, column 2"),
    "a trailing comma": Row(b'{"a":1,}', "", f"is not JSON, line 1, column {_AFTER_A_COMMA}"),
    "a comment": Row(b'{\n// x\n"a":1}', "", "is not JSON, line 2, column 1"),
    "an open object": Row(b'{"a":1', "", "is not JSON, line 1, column 7"),
    "an open string": Row(b'{"a":"', "", "is not JSON, line 1, column 6"),
    "a control byte in a string": Row(b'{"a":"\x01"}', "", "is not JSON, line 1, column 7"),
    "a bad escape": Row(b'{"a":"\\x41"}', "", "is not JSON, line 1, column 7"),
    "a leading zero": Row(b'{"a":01}', "", "is not JSON, line 1, column 7"),
    "no UTF-8": Row(b'{"a":"\xff"}', "", "is not UTF-8, byte 7"),
    "an overlong slash": Row(b'{"a":"\xc0\xaf"}', "", "is not UTF-8, byte 7"),
    "an encoded surrogate": Row(b'{"a":"\xed\xa0\x80"}', "", "is not UTF-8, byte 7"),
    "UTF-16": Row("{}".encode("utf-16"), "", "is not UTF-8, byte 1"),
    "a byte-order mark": Row(
        b"\xef\xbb\xbf{}", "", "begins with a byte-order mark", "save it as UTF-8 without BOM"
    ),
    "half a surrogate pair": Row(b'{"a":"\\ud800"}', "", SURROGATE),
    "half a pair as a name": Row(b'{"\\udfff":1}', "", SURROGATE),
    "100,000 brackets": Row(b"[" * 100_000, "", DEEP),
    "100,000 objects": Row(b'{"a":' * 100_000, "", DEEP),
    "65 closed levels": Row(b"[" * 65 + b"]" * 65, "", DEEP),
    "NaN": Row(b'{"a":NaN}', "", CONSTANT),
    "minus infinity": Row(b'{"a":-Infinity}', "", CONSTANT),
    "300,000 values": Row(
        b"[" + b"1," * 300_000 + b"1]",
        "",
        "holds more than 250000 values",
        "send bytes as base64, not as numbers",
    ),
}

BAD_MANIFEST_FIELDS = {
    "a number": Row(b'{"manifest":5}', "manifest", "is a number, must be base64"),
    "an object": Row(b'{"manifest":{}}', "manifest", "is an object, must be base64"),
    "true": Row(b'{"manifest":true}', "manifest", "is true or false, must be base64"),
    "no padding": Row(b'{"manifest":"AAA"}', "manifest", BASE64, BASE64_HINT),
    "too much padding": Row(b'{"manifest":"AAA=="}', "manifest", BASE64, BASE64_HINT),
    "stray bits": Row(b'{"manifest":"AB=="}', "manifest", BASE64, BASE64_HINT),
    "the URL alphabet": Row(b'{"manifest":"-_-_"}', "manifest", BASE64, BASE64_HINT),
    "a blank inside": Row(b'{"manifest":"AA AA"}', "manifest", BASE64, BASE64_HINT),
    "no ASCII": Row('{"manifest":"AAAé"}'.encode(), "manifest", BASE64, BASE64_HINT),
    "padding inside": Row(b'{"manifest":"AA==AAAA"}', "manifest", BASE64, BASE64_HINT),
    "the number 256": Row(b'{"manifest":[256]}', "manifest", NO_BYTE),
    "a negative number": Row(b'{"manifest":[-1]}', "manifest", NO_BYTE),
    "a million digits": Row(b'{"manifest":[' + b"9" * 10**6 + b"]}", "manifest", NO_BYTE),
    "a fraction": Row(
        b'{"manifest":[1.0]}',
        "manifest",
        "is a list with an item that is not a number, must be base64",
    ),
    "a list of true": Row(
        b'{"manifest":[true]}',
        "manifest",
        "is a list with an item that is not a number, must be base64",
    ),
    "the last of two": Row(
        b'{"manifest":"e30=","MANIFEST":5}', "manifest", "is a number, must be base64"
    ),
    # Unknown fields are ignored, so they are not among the fields at fault.
    "an unknown one too": Row(b'{"x":0,"manifest":5}', "manifest", "is a number, must be base64"),
}

BAD_SECRET_FIELDS = {
    "a string": Row(b'{"secrets":""}', "secrets", "is a string, must be an object"),
    "a list": Row(b'{"secrets":[]}', "secrets", "is a list, must be an object"),
    "a huge number": Row(
        b'{"secrets":' + b"9" * 10**6 + b"}", "secrets", "is a number, must be an object"
    ),
    "a secret that is a number": Row(
        b'{"secrets":{"note":1}}', "secrets.note", "is a number, must be an object"
    ),
    "a secret with an odd name": Row(
        b'{"secrets":{"my note\\u001b[2J":1}}',
        'secrets["my note\\u001b[2J"]',
        "is a number, must be an object",
    ),
    "a key that is true": Row(
        b'{"secrets":{"note":{"key":true}}}',
        "secrets.note.key",
        "is true or false, must be base64",
    ),
    "a key without padding": Row(
        b'{"secrets":{"note":{"key":"AAA"}}}', "secrets.note.key", BASE64, BASE64_HINT
    ),
    "a key with stray bits": Row(
        b'{"secrets":{"note":{"KEY":"AB=="}}}', "secrets.note.key", BASE64, BASE64_HINT
    ),
    "a certificate as text": Row(
        b'{"secrets":{"note":{"cert":"-----BEGIN CERTIFICATE-----"}}}',
        "secrets.note.cert",
        BASE64,
        BASE64_HINT,
    ),
    "a private key of 256s": Row(
        b'{"secrets":{"note":{"private":[256]}}}', "secrets.note.private", NO_BYTE
    ),
    "a public key in the URL alphabet": Row(
        b'{"secrets":{"note":{"public":"__=="}}}', "secrets.note.public", BASE64, BASE64_HINT
    ),
}


@pytest.fixture
def accepting(servers: dict[Phase, Server]) -> Iterator[Client]:
    """A connection to the coordinator that waits for a manifest; at the end it still does."""
    with as_nobody(servers[Phase.ACCEPTING_MANIFEST]) as client:
        before = observe(client)
        yield client
        assert client.get("/api/v2/status").data["status"] == 2
        assert observe(client) == before


@pytest.fixture
def writing(running: Server) -> Iterator[Client]:
    """A connection of the writer; at the end nothing has changed."""
    with as_writer(running) as client:
        before: Observed = observe(client)
        assert before.revision
        yield client
        assert observe(client) == before


def refused_body(reply: Reply, row: Row) -> None:
    """Check a ``fail`` that names the field and says what to do."""
    assert reply.status == 400
    place, hint = f"{row.at}: " if row.at else "", f" ({row.hint})" if row.hint else ""
    assert checked(reply).envelope == {
        "status": "fail",
        "data": {row.at or "body": row.problem},
        "message": f"cannot read the JSON text: {place}{row.problem}{hint}",
    }


def refused_content(reply: Reply, what: str, *problems: tuple[str, str, str]) -> None:
    """Check an ``error`` that lists every problem of a content that could be read."""
    assert reply.status == 400
    envelope = checked(reply).envelope
    assert envelope["status"] == "error"
    assert [tuple(problem.values()) for problem in envelope["data"]["problems"]] == [*problems]
    assert envelope["message"].startswith(f"{what}: ")
    for place, problem, hint in problems:
        where, remedy = f"{place}: " if place else "", f" ({hint})" if hint else ""
        assert f"{where}{problem}{remedy}" in envelope["message"]


@pytest.mark.parametrize("row", NO_JSON.values(), ids=NO_JSON)
def test_a_body_that_is_no_json_object_is_refused_with_its_place(
    accepting: Client, writing: Client, row: Row
) -> None:
    refused_body(accepting.call("POST", MANIFEST, row.body), row)
    refused_body(writing.call("POST", SECRETS, row.body), row)


@pytest.mark.parametrize("body", [b"", b" \r\n\t"], ids=["nothing", "blanks"])
def test_an_empty_body_is_refused(accepting: Client, writing: Client, body: bytes) -> None:
    for client, path in ((accepting, MANIFEST), (writing, SECRETS)):
        reply = checked(client.call("POST", path, body))
        assert (reply.status, reply.envelope) == (
            400,
            {
                "status": "fail",
                "data": {"body": "is empty, must be a JSON object"},
                "message": "the body is empty (send a JSON object)",
            },
        )


@pytest.mark.parametrize("row", BAD_MANIFEST_FIELDS.values(), ids=BAD_MANIFEST_FIELDS)
def test_a_manifest_that_is_no_base64_is_refused(accepting: Client, row: Row) -> None:
    refused_body(accepting.call("POST", MANIFEST, row.body), row)


@pytest.mark.parametrize("row", BAD_SECRET_FIELDS.values(), ids=BAD_SECRET_FIELDS)
def test_an_upload_with_a_bad_field_is_refused_with_its_path(writing: Client, row: Row) -> None:
    refused_body(writing.call("POST", SECRETS, row.body), row)


def test_every_bad_field_of_an_upload_is_told_at_once(writing: Client) -> None:
    body = {"secrets": {"note": {"key": 1}, "key0": {"key": "A"}, "key1": [], "key2": None}}
    assert checked(writing.post(SECRETS, body)).envelope["data"] == {
        "secrets.key0.key": BASE64,
        "secrets.key1": "is a list, must be an object",
        "secrets.note.key": "is a number, must be base64",
    }


@pytest.mark.parametrize(
    "body", [b"null", b"{}", b'{"manifest":null}', b'{"manifest":""}', b'{"manifest":[]}', b"{} x"]
)
def test_a_missing_manifest_is_told_how_to_be_sent(accepting: Client, body: bytes) -> None:
    refused_content(accepting.call("POST", MANIFEST, body), "the manifest", NO_MANIFEST)


@pytest.mark.parametrize("body", [b"null", b"{}", b'{"secrets":null}', b'{"secrets":{}}', b"{}}"])
def test_an_upload_of_nothing_is_refused(writing: Client, body: bytes) -> None:
    refused_content(writing.call("POST", SECRETS, body), "the upload", NO_SECRETS)


NOTHING_RUNS = (
    ("Marbles", "is empty", "name at least one workload type"),
    ("Packages", "is empty", "name at least one enclave program or confidential VM"),
)


@pytest.mark.parametrize(
    "body",
    [
        b'{"manifest":"e30="}',
        b'{"manifest":[123,125]}',
        b'{"MANIFEST":"e30="}',
        b'{"manifest":"e\\r\\n30=\\n"}',
        b'{"manifest":5,"manifest":"e30="}',
        b'{"Manifest":"AAAA","manifest":"e30="}',
        b'{"manifest":"e30=","unknown":{"a":[1,2]}}',
        b'{"manifest":"e30="} and more \xff\0 [[[',
        b'{"man\\u0069fest":"e30="}',
        b' \n{"manifest" : "e30="}\n',
        b'{"manifest":"e30=","more":' + b"[" * 63 + b"]" * 63 + b"}",
    ],
    ids=range(11),
)
def test_forms_that_the_interface_takes_are_read_as_the_same_manifest(
    accepting: Client, body: bytes
) -> None:
    refused_content(accepting.call("POST", MANIFEST, body), "the manifest", *NOTHING_RUNS)


def test_what_looks_like_the_field_but_is_not_is_ignored(accepting: Client) -> None:
    body = '{"mani\ufb01est":"e30=","manife\u017ft":"e30="}'.encode()
    refused_content(accepting.call("POST", MANIFEST, body), "the manifest", NO_MANIFEST)


TWICE_HINT = "keep one of them; names of fields are the same in any case"
BAD_MANIFESTS: dict[str, tuple[bytes, tuple[tuple[str, str, str], ...]]] = {
    "words": (b"nope", (("", "is not JSON, line 1, column 1", ""),)),
    "a list": (b"[]", (("", "is a list, must be an object", ""),)),
    "no UTF-8": (b"{\xff", (("", "is not UTF-8, byte 2", ""),)),
    "a byte-order mark": (
        b"\xef\xbb\xbf" + manifest(),
        (("", "begins with a byte-order mark", "save it as UTF-8 without BOM"),),
    ),
    "text after it": (
        b'{"a":1}\n\n{}',
        (("", "has further text after its end, line 1, column 8", ""),),
    ),
    "NaN": (b'{"Packages":NaN}', (("", CONSTANT, ""),)),
    "deep nesting": (b'{"Packages":' * 100_000, (("", DEEP, ""),)),
    "wrong types": (
        b'{"Packages":[1],"Marbles":"x"}',
        (
            ("Marbles", "is a string, must be an object", ""),
            ("Packages", "is a list, must be an object", ""),
        ),
    ),
    "a repeated field": (
        manifest()[:-1] + b',"PACKAGES":{"app":{"UniqueID":"' + b"00" * 31 + b'02"}}}',
        (("Packages", "is given more than once", TWICE_HINT),),
    ),
    "a repeated name": (
        manifest().replace(b'"Roles": {', b'"Roles": {"read": {}, ', 1),
        (("Roles.read", "is given more than once", TWICE_HINT),),
    ),
    "a field with a typing mistake": (
        manifest()[:-1] + b',"Secret":{}}',
        (("Secret", "unknown field", "did you mean Secrets?"),),
    ),
}


@pytest.mark.parametrize("name", BAD_MANIFESTS)
def test_a_bad_manifest_is_refused_with_every_problem(accepting: Client, name: str) -> None:
    raw, problems = BAD_MANIFESTS[name]
    refused_content(accepting.set_manifest(raw), "the manifest", *problems)


def test_of_thousands_of_problems_twenty_are_in_the_message(accepting: Client) -> None:
    marbles = {f"m{number}": {"Package": "none"} for number in range(3000)}
    raw = json.dumps({"Packages": {"a": {"UniqueID": "00" * 32}}, "Marbles": marbles}).encode()
    reply = checked(accepting.set_manifest(raw))
    assert reply.status == 400
    assert len(reply.envelope["data"]["problems"]) == 1001
    assert reply.envelope["message"].endswith("; and 981 more")
    assert len(reply.body) < 200_000


def test_a_manifest_sent_to_a_running_coordinator_is_refused_unread(writing: Client) -> None:
    for body in (b"", b"garbage", json.dumps({"manifest": b64(manifest())}).encode()):
        reply = checked(writing.call("POST", MANIFEST, body))
        assert reply.status == 409
        assert reply.envelope == {
            "status": "error",
            "data": None,
            "message": "the coordinator is running; setting the manifest is possible only while"
            " it is in recovery mode or while it is waiting for its first manifest"
            " (change the manifest in force with keyhouse manifest update apply)",
        }


def test_garbage_of_an_anonymous_client_is_never_parsed(running: Server) -> None:
    with as_nobody(running) as client:
        for body in (b"[" * 100_000, b"\xff", b'{"secrets":{"note":{"key":"AAAA"}}}'):
            reply: Any = checked(client.call("POST", SECRETS, body)).envelope
            assert (reply["status"], reply["data"]) == ("fail", None)
            assert "client certificate" in reply["message"]
