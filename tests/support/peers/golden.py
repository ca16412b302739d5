"""Compares answers with golden files: placeholders replace the parts that differ in each run.

``GOLDEN=write pytest tests/acceptance/client_api/test_wire_bodies.py`` writes the files again.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from support.peers.answers import checked
from support.process.server import Reply

_FOLDER: Final = Path(__file__).parents[2] / "acceptance" / "client_api" / "golden"

_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4}){8,}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_PEM: Final = re.compile(
    r"(-----BEGIN CERTIFICATE-----\n[A-Za-z0-9+/=\n]+\n-----END CERTIFICATE-----\n){2}"
)
_FINGERPRINT: Final = re.compile(r"[0-9a-f]{64}")
_LOG_HEAD: Final = re.compile(r"[1-9][0-9]*\.[0-9a-f]{16}")
_REVISION: Final = re.compile(r"[1-9][0-9]*\.[1-9][0-9]*\.[0-9a-f]{16}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_FIXED_HEADERS: Final = {
    "content-type": "application/json",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "keyhouse-platform": "simulation",
}


def settled(reply: Reply) -> dict[str, Any]:
    """Return status, further headers and envelope of a well-formed answer, with placeholders."""
    headers = dict(checked(reply).headers)
    assert int(headers.pop("content-length")) == len(reply.body)
    headers.pop("connection", None)  # depends on the arrival time of an unread body
    for name, value in _FIXED_HEADERS.items():
        assert headers.pop(name) == value
    if "keyhouse-state" in headers:
        assert _REVISION.fullmatch(headers["keyhouse-state"])
        headers["keyhouse-state"] = "<revision>"
        assert _LOG_HEAD.fullmatch(headers["keyhouse-log"])
        headers["keyhouse-log"] = "<head of the log>"
    return {"status": reply.status, "headers": headers, "body": _settled(reply.envelope)}


def _settled(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _settled(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_settled(inner) for inner in value]
    if not isinstance(value, str):
        return value
    for pattern, placeholder in (
        (_FINGERPRINT, "<SHA-256 in hex>"),
        (_PEM, "<two certificates in PEM>"),
        (_BASE64, "<base64>"),
    ):
        if pattern.fullmatch(value):
            return placeholder
    return _TIME.sub("<time>", value)


def is_writing() -> bool:
    """Return whether to write golden files instead of a comparison."""
    return os.environ.get("GOLDEN") == "write"


def write(name: str, answers: Mapping[str, Any]) -> None:
    """Write the golden file ``name``."""
    text = json.dumps(answers, indent=1, ensure_ascii=False) + "\n"
    (_FOLDER / f"{name}.json").write_text(text, "utf-8")


def golden(name: str) -> dict[str, Any]:
    """Return the content of the golden file ``name``, in the order of the file."""
    found = json.loads((_FOLDER / f"{name}.json").read_text("utf-8"))
    assert isinstance(found, dict)
    return found
