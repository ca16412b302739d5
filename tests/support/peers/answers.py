"""What holds of every answer of the Client API, whatever was sent, and of the state behind it."""

import base64
import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from support.process.server import Client, Reply, Server
from support.samples.deployment import manifest, user

REFUSALS: Final = frozenset({400, 401, 403, 404, 405, 408, 409, 410, 413, 414, 415, 431, 501, 503})
"""Every HTTP status that a client's own doing can have. 500 is never one."""

FOREIGN: Final = re.compile(
    r"msgspec|Traceback|JSONDecode|Expecting|\bexpected\b|codec|0x[0-9a-f]{4}|object at|"
    r"internal error|openssl|asn\.?1|ParseError|InvalidData|NoneType|site-packages|\.py\b|/tmp/|"
    r"\b(?:Value|Key|Type|Index|Unicode|Recursion|Assertion|Memory)\w*Error|\bstruct\b",
    re.IGNORECASE,
)
"""Words of libraries and of this program's inside, which no client should read."""


_PARTS_OF_A_LOG: Final = {"text/plain; charset=utf-8", "application/octet-stream"}


def checked(reply: Reply) -> Reply:
    """Return ``reply`` once it is known to be a well-formed answer of the interface."""
    assert reply.status == 200 or reply.status in REFUSALS, (reply.status, reply.body)
    if reply.headers["content-type"] in _PARTS_OF_A_LOG:
        assert reply.status == 200
        return reply
    assert reply.headers["content-type"] == "application/json"
    envelope = reply.envelope
    assert reply.body == compact(envelope)
    if reply.status == 200 and "openapi" in envelope:  # the one answer without an envelope
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
    """Return an envelope as the wire has it: no blanks, UTF-8, one newline at the end."""
    text = json.dumps(envelope, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass") + b"\n"


class Observed(NamedTuple):
    """Everything that a refused request could have changed, as far as clients can see it."""

    revision: str | None
    status: bytes
    manifest: bytes
    log: bytes
    secrets: bytes


def observe(client: Client) -> Observed:
    """Return what ``client``, which may be the ``writer``, sees of the coordinator now."""
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
    """Return the client of the user who may write; each ``with`` opens and ends a connection."""
    return server.client(user("writer"))


@cache
def as_nobody(server: Server) -> Client:
    """Return the client without a certificate; each ``with`` opens and ends a connection."""
    return server.client()


def b64(content: bytes) -> str:
    """Return standard base64."""
    return base64.b64encode(content).decode()


def with_web_certificate() -> bytes:
    """Return the manifest of ``manifest()`` with more for uploads to go wrong on.

    ``web`` is a P-256 certificate to be uploaded; a marble reads ``note`` as text. The writer may
    raise the security version of the packages ``lib`` (now 3) and ``app`` (which has none).
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
