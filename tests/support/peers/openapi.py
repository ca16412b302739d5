"""Compares answers with the description of the interface, more strictly than clients may."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import jsonschema_rs

from keyhouse.server.client_api import ROUTES
from support.openapi.document import openapi

__all__ = ["DOCUMENT", "OPERATIONS", "Target", "closed", "recorded", "require_described"]

Target = tuple[str, str]
"""Method and path."""

DOCUMENT: Final = openapi(ROUTES)
OPERATIONS: Final[dict[Target, Any]] = {
    (method.upper(), path): operation
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}
_GOLDEN: Final = Path(__file__).parents[2] / "acceptance" / "client_api" / "golden"
_OF_ANY_ANSWER: Final = {
    "cache-control",
    "connection",
    "content-length",
    "content-type",
    "x-content-type-options",
}


def require_described(target: Target, status: int, headers: Mapping[str, str], body: Any) -> None:
    """Require the answer in the description of ``target``. Refuse extra fields and headers."""
    response = OPERATIONS[target]["responses"][str(status)]
    if "$ref" in response:
        response = DOCUMENT["components"]["responses"][response["$ref"].rpartition("/")[2]]
    schema = response["content"]["application/json"]["schema"]
    whole = closed({"components": {"schemas": DOCUMENT["components"]["schemas"]}, **schema})
    jsonschema_rs.Draft202012Validator(whole).validate(body)
    assert set(headers) <= _OF_ANY_ANSWER | {name.lower() for name in response["headers"]}


def closed(schema: Any) -> Any:
    """Return ``schema`` with a prohibition of unknown fields."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(item) for name, item in schema.items()}
    return made | ({"additionalProperties": False} if "properties" in made else {})


def recorded() -> dict[str, tuple[Target, Any]]:
    """Return the golden answers of existing calls, with their targets, by file and scene."""
    found = {}
    for file in sorted(_GOLDEN.glob("*.json")):
        prefix = "" if file.stem == "version_1" else "/api/v2"
        for scene, answer in json.loads(file.read_text(encoding="utf-8")).items():
            method, path = re.split(r"[ ?:]", scene)[:2]
            if answer["status"] != 405:
                found[f"{file.stem}: {scene}"] = (method, prefix + path), answer
    return found
