"""The description of the interface: complete, in its form, and the one in the repository."""

import json
import re
from collections.abc import Iterator
from typing import Annotated, Any

import jsonschema_rs
import msgspec
import pytest
from support.openapi.texts import DESCRIPTIONS
from support.openapi.type_schema import schema_of
from support.peers.openapi import DOCUMENT, OPERATIONS, recorded, require_described
from support.reference import DOCUMENTS, REFERENCE, served_openapi

from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.phases import TABLE, PhaseOutcome
from keyhouse.server.client_api import ROUTES, Caller
from keyhouse.server.client_api.v2.reads import encoded_openapi
from keyhouse.server.net.error_mapping import ERRORS
from keyhouse.wire import client_api
from keyhouse.wire.base64_text import decode_base64
from keyhouse.wire.field_presence import OneOf, OrNull, Sometimes, Unsent
from keyhouse.wire.json_decoder import UInt64, decode


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _nodes(item)


def test_document_in_the_repository_is_the_one_that_the_code_makes() -> None:
    assert (REFERENCE / "openapi.json").read_text(encoding="utf-8") == DOCUMENTS[
        "openapi.json"
    ](), "renew it: PYTHONPATH=tests .venv/bin/python -m support.reference"


def test_document_that_is_served_is_the_same() -> None:
    renew = "renew it: PYTHONPATH=tests .venv/bin/python -m support.reference"
    assert encoded_openapi() == served_openapi(), renew
    assert json.loads(encoded_openapi()) == DOCUMENT


def test_every_route_is_described_and_nothing_else() -> None:
    targets = {(route.method, route.path) for route in ROUTES}

    assert set(OPERATIONS) == targets
    assert set(DESCRIPTIONS) == targets


def test_names_of_operations_are_unique() -> None:
    names = [operation["operationId"] for operation in OPERATIONS.values()]

    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"v[12]_(?:get|post)(?:_[a-z0-9]+)+", name) for name in names)


def test_every_reference_leads_somewhere_and_everything_is_used() -> None:
    references = {node["$ref"] for node in _nodes(DOCUMENT) if "$ref" in node}

    for reference in references:
        found: Any = DOCUMENT
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]
    schemas = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}
    assert schemas <= references


def test_every_schema_is_one() -> None:
    for node in _nodes(DOCUMENT):
        schema = node.get("schema")
        if isinstance(schema, dict) and "$ref" not in schema:
            jsonschema_rs.meta.validate(schema)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_call_lists_what_phase_caller_and_gate_can_answer(route: Any) -> None:
    operation = OPERATIONS[route.method, route.path]
    listed = {int(status) for status in operation["responses"]}
    met = {int(outcome) for outcome in TABLE[route.operation] if outcome is not PhaseOutcome.YES}

    assert met <= listed
    assert {400, 408, 413, 414, 415, 431, 500, 501, 503} <= listed
    assert (401 in listed) >= (route.caller is not Caller.ANYBODY)
    assert (403 in listed) >= (route.gate is not None)
    assert operation["security"] == (
        [] if route.caller is Caller.ANYBODY else [{"clientCertificate": []}]
    )


def test_every_call_but_the_moved_one_has_a_success() -> None:
    for route in ROUTES:
        responses = OPERATIONS[route.method, route.path]["responses"]
        assert ("200" in responses) is (route.path != "/recover")


def test_every_status_of_an_error_has_a_meaning_in_both_versions() -> None:
    responses = DOCUMENT["components"]["responses"]

    for status in {wording.http for wording in ERRORS.values()}:
        assert f"v1-{status}" in responses
        assert f"v2-{status}" in responses


def test_version_1_never_fails_but_only_errs() -> None:
    for name, response in DOCUMENT["components"]["responses"].items():
        if name.startswith("v1-"):
            schema = response["content"]["application/json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/Error-v1"}


def test_bodies_tell_their_limit() -> None:
    for route in ROUTES:
        body = OPERATIONS[route.method, route.path].get("requestBody")
        if body:
            assert body["x-body-limit-bytes"] == route.body_limit
            assert f"{route.body_limit:,} bytes" in body["description"]


# --- schemas of types ---


_BASE64 = {"type": "string", "contentEncoding": "base64"}


class Inner(msgspec.Struct, rename="camel"):
    """Holds ``itself``."""

    some_bytes: bytes
    further: "tuple[Inner, ...]" = ()


class Outer(msgspec.Struct):
    """Two lines,
    one paragraph.
    """

    secret: Secret | None
    kind: Annotated[int, OneOf((1, 2))]
    number: Sometimes[UInt64] = 0
    empty: OrNull[str] = ""
    own: Unsent[str] = ""
    inner: dict[str, Inner] = {}


def test_struct_becomes_a_component_with_its_names_and_required_fields() -> None:
    components: dict[str, Any] = {}

    assert schema_of(Outer, components) == {"$ref": "#/components/schemas/Outer"}
    assert components["Outer"] == {
        "description": "Two lines, one paragraph.",
        "type": "object",
        "properties": {
            "secret": {
                "anyOf": [{"type": "string", "contentEncoding": "base64"}, {"type": "null"}]
            },
            "kind": {"type": "integer", "enum": [1, 2]},
            "number": {"type": "integer", "minimum": 0, "maximum": 2**64 - 1},
            "empty": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "inner": {
                "type": "object",
                "additionalProperties": {"$ref": "#/components/schemas/Inner"},
            },
        },
        "required": ["secret", "kind"],
    }
    assert components["Inner"]["properties"] == {
        "someBytes": _BASE64,
        "further": {"type": "array", "items": {"$ref": "#/components/schemas/Inner"}},
    }
    assert components["Inner"]["description"] == "Holds `itself`."


def test_fields_that_are_always_sent_are_required_whatever_a_reader_can_do_without() -> None:
    components: dict[str, Any] = {}

    schema_of(Outer, components, sent=True)

    assert components["Outer"]["required"] == ["secret", "kind", "empty", "inner"]
    assert components["Inner"]["required"] == ["someBytes", "further"]


def test_fields_that_are_left_out_with_their_defaults_are_not_required() -> None:
    components: dict[str, Any] = {}

    schema_of(client_api.Activation, components, sent=True)

    assert components["ActivationEntry"]["required"] == ["time", "marbleType", "uuid"]


def test_type_without_a_json_form_is_refused() -> None:
    with pytest.raises(TypeError, match="complex"):
        schema_of(complex, {})


# --- bodies of requests ---


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        (client_api.ManifestBody, {"manifest": "e30="}),
        (client_api.UpdateBody, {"manifest": "e30=", "plan": "ab" * 32, "approval": "AA=="}),
        (client_api.CancelBody, {"approval": "AA=="}),
        (client_api.SecretsBody, {"secrets": {"a": {"key": "AA==", "cert": None}}}),
        (
            client_api.RecoverBody,
            {"recoverySecret": "AA==", "recoverySecretSignature": "AAE="},
        ),
        (client_api.SignQuoteBody, {"sgxQuote": "AA=="}),
        (client_api.CounterBody, {"name": "n", "value": 2**64 - 1}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_body_that_fits_its_schema_is_read_into_its_type(
    kind: type[msgspec.Struct], sent: dict[str, Any]
) -> None:
    components: dict[str, Any] = {}
    reference = schema_of(kind, components)
    schema = {**reference, "components": {"schemas": components}}
    jsonschema_rs.Draft202012Validator(schema).validate(sent)

    read = decode(json.dumps(sent).encode(), kind)

    assert list(sent) == list(kind.__struct_encode_fields__)
    for name, value in zip(kind.__struct_fields__, sent.values(), strict=True):
        found = getattr(read, name)
        if isinstance(found, bytes):
            assert found == decode_base64(value)
        elif isinstance(found, Secret):
            assert found.reveal() == decode_base64(value)
        elif not isinstance(found, dict):
            assert found == value


# --- recorded answers ---

RECORDED = recorded()


@pytest.mark.parametrize("scene", RECORDED)
def test_recorded_answer_fits_the_description(scene: str) -> None:
    target, answer = RECORDED[scene]

    require_described(target, answer["status"], answer["headers"], answer["body"])


def test_answer_that_the_description_does_not_have_is_found() -> None:
    good = {"status": "success", "data": {"status": 3, "code": 3, "message": "running"}}
    target = ("GET", "/api/v2/status")
    require_described(target, 200, {}, good)

    with pytest.raises(KeyError):
        require_described(target, 409, {}, good)
    with pytest.raises(jsonschema_rs.ValidationError):
        require_described(target, 200, {}, {**good, "more": 1})
    with pytest.raises(jsonschema_rs.ValidationError):
        require_described(target, 200, {}, {**good, "data": {**good, "more": 1}})
    with pytest.raises(AssertionError):
        require_described(target, 200, {"set-cookie": "a=b"}, good)
