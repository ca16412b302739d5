"""Properties of every answer of the Client API to any request, and of the observable state."""

import base64
import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from support.process.server import Client, Reply, Server
from support.samples.deployment import manifest, user

REFUSALS: Final = frozenset({400, 401, 403, 404, 405, 408, 409, 410, 413, 414, 415, 431, 501, 503})
"""All HTTP statuses that a client's request can cause. A request never causes 500."""

FOREIGN: Final = re.compile(
    r"msgspec|Traceback|JSONDecode|Expecting|\bexpected\b|codec|0x[0-9a-f]{4}|object at|"
    r"internal error|openssl|asn\.?1|ParseError|InvalidData|NoneType|site-packages|\.py\b|/tmp/|"
    r"\b(?:Value|Key|Type|Index|Unicode|Recursion|Assertion|Memory)\w*Error|\bstruct\b",
    re.IGNORECASE,
)
"""Words of libraries and of the implementation. No answer may have them."""


_PARTS_OF_A_LOG: Final = {"text/plain; charset=utf-8", "application/octet-stream"}


def checked(reply: Reply) -> Reply:
    """Return ``reply`` after a check that the interface permits this answer."""
    assert reply.status == 200 or reply.status in REFUSALS, (reply.status, reply.body)
    if reply.headers["content-type"] in _PARTS_OF_A_LOG:
        assert reply.status == 200
        return reply
    assert reply.headers["content-type"] == "application/json"
    envelope = reply.envelope
    assert reply.body == compact(envelope)
    if reply.status == 200 and "openapi" in envelope:  # the only answer without an envelope
        return reply
    assert list(envelope) in (["status", "data"], ["status", "data", "message"])
    if reply.status == 200:
        assert envelope["status"] == "success"
    else:
        assert envelope["status"] in {"fail", "error"}
        assert len(envelope["message"]) > 10
        assert reply.status == 405 or not envelope["message"].endswith((".", "\n"))  # 405: a path
        assert FOREIGN.search(reply.body.decode()) is None, reply.body
    return reply


def compact(envelope: Mapping[str, Any]) -> bytes:
    """Return an envelope in its wire form: no blanks, UTF-8, one newline at the end."""
    text = json.dumps(envelope, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass") + b"\n"


class Observed(NamedTuple):
    """The observable state: a refused request must not change any part."""

    revision: str | None
    status: bytes
    manifest: bytes
    log: bytes
    secrets: bytes


def observe(client: Client) -> Observed:
    """Return the present state as ``client`` observes it. The user ``writer`` may read secrets."""
    status = client.get("/api/v2/status")
    return Observed(
        status.headers.get("keyhouse-state"),
        status.body,
        client.get("/api/v2/manifest").body,
        client.get("/api/v2/update").body,
        client.get("/api/v2/secrets?s=note&s=key0&s=key1").body,
    )


@cache
def as_writer(server: Server) -> Client:
    """Return the client of the user ``writer``; each ``with`` opens and closes a connection."""
    return server.client(user("writer"))


@cache
def as_nobody(server: Server) -> Client:
    """Return the client without a certificate; each ``with`` opens and closes a connection."""
    return server.client()


def b64(content: bytes) -> str:
    """Return standard base64."""
    return base64.b64encode(content).decode()


def with_web_certificate() -> bytes:
    """Return the manifest of ``manifest()`` with more targets for bad uploads.

    ``web`` is a user-defined P-256 certificate. A marble reads ``note`` as text. The writer may
    raise the security version of the packages ``lib`` (now 3) and ``app`` (without a version).
    """
    content = json.loads(manifest())
    content["Packages"]["lib"] = {"SignerID": "ab" * 32, "ProductID": 1, "SecurityVersion": 3}
    content["Roles"]["raise"] = {
        "ResourceType": "Packages",
        "ResourceNames": ["lib", "app"],
        "Actions": ["UpdateSecurityVersion"],
    }
    content["Users"]["writer"]["Roles"].append("raise")
    content["Secrets"]["web"] = {"Type": "cert-ecdsa", "Size": 256, "UserDefined": True}
    content["Roles"]["write"]["ResourceNames"].append("web")
    content["Marbles"]["app"]["Parameters"] = {"Env": {"NOTE": "{{ string .Secrets.note }}"}}
    return json.dumps(content).encode()
