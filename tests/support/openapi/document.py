"""Generates the OpenAPI 3.1 description of the Client API from its routes and wire types.

The statuses of a call come from the table of phases, the caller, the feature gate, the row in
``DESCRIPTIONS``, and the refusals of the protocol. The coordinator serves the result as the file
``openapi.json`` of its own distribution, so none of this code is in an enclave. Source: OpenAPI
Specification 3.1; Client API, "Endpoints".
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from keyhouse.base.errors import ForbiddenError, KeyhouseError, UnauthenticatedError
from keyhouse.base.version import VERSION
from keyhouse.coordinator.core.phases import TABLE, PhaseOutcome
from keyhouse.server.client_api.routes import Caller, Route
from keyhouse.server.net.error_mapping import ERRORS
from keyhouse.wire.client_api import Problems
from support.openapi.texts import DESCRIPTIONS, Described, RawManifest, RawObject
from support.openapi.type_schema import Schema, schema_of

_PROTOCOL: Final = (400, 408, 413, 414, 415, 431, 500, 501, 503)
"""Possible statuses of every request: malformed, slow, too large, or at a wrong time."""

_NO_FAULT: Final = frozenset({500, 501, 503})  # never a ``fail``

_MEANINGS: Final = {
    400: "The request, or its content, is invalid.",
    401: "No certificate of a user, or there are no users.",
    403: "The permission is missing, or the manifest has not enabled this.",
    404: "The requested object does not exist.",
    408: "The request took too long.",
    409: "Impossible in this phase, or in conflict with the stored or pending state.",
    410: "An older version had this call.",
    413: "The body is too large.",
    414: "The request line is too long.",
    415: "Encoded bodies are not supported.",
    431: "The headers are too large.",
    500: "An internal condition is violated; notify an operator.",
    501: "Not supported.",
    503: "Not possible now: retry later; with Keyhouse-Outcome, read the state before a retry.",
}
_REASONS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
_TEXT: Final = {"type": "string", "minLength": 1}
_HEADERS: Final = {
    "Keyhouse-State": {
        "description": "While a manifest is enforced: epoch, sequence, start of the chain value.",
        "schema": {"type": "string", "pattern": "^[0-9]+\\.[0-9]+\\.[0-9a-f]{16}$"},
    },
    "Keyhouse-Replica": {
        "description": "With several coordinators on a store: the coordinator that answered.",
        "schema": {"type": "string", "pattern": "^[0-9a-f]{8}$"},
    },
    "Keyhouse-Log": {
        "description": "While a manifest is enforced: size and start of the root of the log.",
        "schema": {"type": "string", "pattern": "^[0-9]+\\.[0-9a-f]{16}$"},
    },
    "Keyhouse-Platform": {
        "description": "On the simulated platform, which protects nothing.",
        "schema": {"const": "simulation"},
    },
}
_LATER: Final = {
    "Retry-After": {"description": "Seconds.", "schema": {"type": "string"}},
    "Keyhouse-Outcome": {
        "description": "In place of Retry-After: the change may have happened.",
        "schema": {"const": "unknown"},
    },
}


_INFO: Final = {
    "title": "Keyhouse Client API",
    "version": VERSION,
    "summary": "The trusted coordinator of a confidential-computing cluster.",
    "description": "Verify the coordinator's quote before you believe an answer. Any other "
    "path or method is 405. Names of fields in requests match in any case; unknown fields "
    "are ignored. With several coordinators on a store, a request may have the header "
    "Keyhouse-At-Least, a value of Keyhouse-State. A coordinator without this state answers "
    "503, or 409 if its own state does not continue this state.",
    "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
}


def openapi(routes: Iterable[Route]) -> Schema:
    """Return the description of ``routes`` as JSON values."""
    components: dict[str, Schema] = {}
    paths: Schema = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, components)
    refusals = _refusals(components)
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": _INFO,
        "tags": [
            {"name": "v2", "description": "Version 2."},
            {"name": "v1", "description": "Version 1, for older clients."},
        ],
        "paths": paths,
        "components": {
            "schemas": dict(sorted({**components, **refusals}.items())),
            "responses": {
                f"{version}-{status}": _refusal(version, status)
                for version in ("v1", "v2")
                for status in sorted(_MEANINGS)
            },
            "headers": {**_HEADERS, **_LATER},
            "securitySchemes": {
                "clientCertificate": {
                    "type": "mutualTLS",
                    "description": "The certificate of a user in the manifest, or of an activated "
                    "workload; compared by its exact bytes.",
                }
            },
        },
    }


def _schema(kind: Any, components: dict[str, Schema], *, sent: bool) -> Schema:
    """Return the schema of a body. ``sent``: the coordinator sends the data."""
    if kind is None:
        return {"type": "null"}
    if kind is RawManifest:
        return {
            "type": "object",
            "description": "A manifest, or a package update: the exact JSON text.",
        }
    return {"type": "object"} if kind is RawObject else schema_of(kind, components, sent=sent)


# --- one call ---


def _operation(route: Route, components: dict[str, Schema]) -> Schema:
    row = DESCRIPTIONS[route.method, route.path]
    version = _version(route)
    operation: Schema = {
        "operationId": _name(route),
        "tags": [version],
        "summary": row.summary,
        "security": [] if route.caller is Caller.ANYBODY else [{"clientCertificate": []}],
    }
    if route.gate:
        operation["description"] = f"Only if `Config.FeatureGates` has `{route.gate}`."
    if row.query or route.grammar:
        operation["parameters"] = [*_part(route, row), *_query(row)]
    if row.body is not None:
        schema = _schema(row.body, components, sent=False)
        operation["requestBody"] = _body(route, schema, required=not row.may_be_empty)
    operation["responses"] = _responses(route, row, components)
    return operation


def _part(route: Route, row: Described) -> Iterator[Schema]:
    if route.grammar:
        name = route.path.partition("{")[2].removesuffix("}")
        schema = {"type": "string", "pattern": f"^{route.grammar}$"}
        about = {"description": row.part, "required": True, "schema": schema}
        yield {"name": name, "in": "path", **about}


def _query(row: Described) -> Iterator[Schema]:
    for name, parameter in row.query.items():
        yield {"name": name, "in": "query", **parameter}


def _version(route: Route) -> str:
    return "v2" if route.path.startswith("/api/v2/") else "v1"


def _name(route: Route) -> str:
    words = re.findall(r"[a-z0-9]+", route.path.removeprefix("/api/v2"))
    return "_".join((_version(route), route.method.lower(), *words))


def _body(route: Route, schema: Schema, *, required: bool) -> Schema:
    return {
        "required": required,
        "description": f"At most {route.body_limit:,} bytes. The content type is ignored.",
        "x-body-limit-bytes": route.body_limit,
        "content": {"application/json": {"schema": schema}},
    }


def _responses(route: Route, row: Described, components: dict[str, Schema]) -> Schema:
    version = _version(route)
    refused = {
        str(status): {"$ref": f"#/components/responses/{version}-{status}"}
        for status in sorted({*_PROTOCOL, *_refused(route, row)})
    }
    if row.media != "application/json":
        return {"200": _answer("Done.", {}, media=row.media), **refused}
    if row.refused and not (row.data or row.body):
        # The coordinator always refuses this call.
        return refused
    return {
        "200": _success(
            _schema(row.data, components, sent=True), wrapped=row.data is not RawObject
        ),
        **refused,
    }


_OUTCOMES: Final = {
    PhaseOutcome.NOT_NOW: 409,
    PhaseOutcome.NOTHING_SET: 404,
    PhaseOutcome.NO_USERS: 401,
    PhaseOutcome.NO_GATE: 403,
}


def _refused(route: Route, row: Described) -> Iterable[int]:
    """Yield the statuses of refusals of this route only."""
    yield from (_OUTCOMES[met] for met in TABLE[route.operation] if met is not PhaseOutcome.YES)
    errors: list[type[KeyhouseError]] = [*row.refused]
    if route.caller is not Caller.ANYBODY:
        errors.append(UnauthenticatedError)
    if route.gate:
        errors.append(ForbiddenError)
    yield from (ERRORS[kind].http for kind in errors)


# --- envelopes ---


def _success(data: Schema, *, wrapped: bool) -> Schema:
    envelope = {
        "type": "object",
        "properties": {
            "status": {"const": "success"},
            "data": data,
            "message": {**_TEXT, "description": "Further information for the caller."},
        },
        "required": ["status", "data"],
        "additionalProperties": False,
    }
    return _answer("Done.", envelope if wrapped else data)


def _answer(
    description: str,
    schema: Schema,
    more: Mapping[str, Any] | None = None,
    *,
    media: str = "application/json",
) -> Schema:
    headers = {name: {"$ref": f"#/components/headers/{name}"} for name in _HEADERS}
    return {
        "description": description,
        "headers": {**headers, **(more or {})},
        "content": {media: {"schema": schema}},
    }


def _refusal(version: str, status: int) -> Schema:
    later = {name: {"$ref": f"#/components/headers/{name}"} for name in _LATER}
    words = {"error"} if version == "v1" else _words(status)
    names = [f"{word.capitalize()}-{version}" for word in sorted(words)]
    references = [{"$ref": f"#/components/schemas/{name}"} for name in names]
    schema = references[0] if len(references) == 1 else {"anyOf": references}
    return _answer(_MEANINGS[status], schema, later if status == 503 else None)


def _words(status: int) -> set[str]:
    """Return the words of JSend in version 2 for ``status``."""
    own = {row.word for row in ERRORS.values() if row.http == status}
    if status not in _PROTOCOL:
        return own
    return own | ({"error"} if status in _NO_FAULT else {"fail", "error"})


def _refusals(components: dict[str, Schema]) -> Schema:
    problems = schema_of(Problems, components, sent=True)
    nothing = {"type": "null"}
    return {
        "Fail-v2": _refused_as("fail", {"anyOf": [_REASONS, nothing]}),
        "Error-v2": _refused_as("error", {"anyOf": [problems, nothing]}),
        "Error-v1": _refused_as("error", {"anyOf": [problems, _REASONS, nothing]}),
    }


def _refused_as(word: str, data: Schema) -> Schema:
    meaning = "The request itself is at fault: `data` maps parts of it to reasons."
    return {
        "description": meaning if word == "fail" else "Refused: `message` states the reason.",
        "type": "object",
        "properties": {"status": {"const": word}, "data": data, "message": _TEXT},
        "required": ["status", "data", "message"],
        "additionalProperties": False,
    }
