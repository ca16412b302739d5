"""Whatever is sent to live coordinators, the answer is one that the description has.

Requests are made from the description itself, good ones and bad ones, and sent in every phase, by
nobody and by a user.
"""

import copy
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from support.peers.answers import observe
from support.peers.openapi import DOCUMENT, closed
from support.process.server import Server
from support.samples.deployment import user

from keyhouse.coordinator import Phase
from keyhouse.server.client_api import ROUTES

if TYPE_CHECKING:  # importing it takes a second, in each process that collects tests
    import requests
    import schemathesis
    from schemathesis.schemas import APIOperation

pytestmark = pytest.mark.acceptance

LABELS = [f"{route.method} {route.path}" for route in ROUTES]

_TILES = ("0/000.p/1", "entries/000.p/1", "0/000", "1/000", "entries/x001/000")

Operations = dict[str, "APIOperation[Any, Any, Any, Any]"]


def _operations(document: dict[str, Any]) -> Operations:
    """Return every call of ``document`` by its name."""
    import schemathesis
    from schemathesis.core.result import Ok

    found = schemathesis.openapi.from_dict(document).get_all_operations()
    usable = [result.ok() for result in found if isinstance(result, Ok)]
    return {operation.label: operation for operation in usable}


@cache
def _described() -> Operations:
    return _operations(closed(DOCUMENT))  # a field more is a difference


class Caller(NamedTuple):
    """Someone with a kept connection to a coordinator in some phase."""

    phase: Phase
    address: str
    session: "requests.Session"


@pytest.fixture(scope="module")
def callers(
    servers: dict[Phase, Server], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Caller]]:
    """Nobody and the user who may write, at a coordinator in each phase."""
    folder = tmp_path_factory.mktemp("schemathesis")
    writer = folder / "writer.pem"
    writer.write_bytes(user("writer").pem + user("writer").key_pem)
    made = [
        Caller(phase, f"https://127.0.0.1:{server.port}", _session(server, folder, certificate))
        for phase, server in servers.items()
        for certificate in (None, writer)
    ]
    before = {phase: _observed(server) for phase, server in servers.items()}
    yield made
    for caller in made:
        caller.session.close()
    assert {phase: _observed(server) for phase, server in servers.items()} == before


def _observed(server: Server) -> object:
    with server.client(user("writer")) as client:
        return observe(client)


def _session(server: Server, folder: Path, certificate: Path | None) -> "requests.Session":
    """Return a session that trusts the root of ``server`` alone."""
    import requests

    with server.client() as client:
        chain = client.get("/api/v2/quote").data["cert"]
    root = folder / f"root-{server.port}.pem"
    root.write_text(chain)
    session = requests.Session()
    session.trust_env = False
    session.verify = str(root)
    session.cert = str(certificate) if certificate else None
    return session


def _judge(caller: Caller, case: "schemathesis.Case[Any]") -> None:
    from schemathesis.specs.openapi import checks

    judged = [
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_headers_conformance,
        checks.response_schema_conformance,
    ]
    session = caller.session
    answer = case.call(base_url=caller.address, session=session, verify=session.verify)
    assert answer.status_code != 500, answer.content
    case.validate_response(answer, checks=judged)
    if "recover" not in case.path:
        # Base64 of anything is no manifest, and no secret has a name that is found by chance.
        assert case.method == "GET" or answer.status_code != 200, answer.content


@pytest.mark.parametrize("label", LABELS)
def test_every_answer_is_described(callers: list[Caller], label: str) -> None:
    from schemathesis.generation import GenerationMode

    operation = _described()[label]
    modes = [GenerationMode.POSITIVE]
    if operation.body or operation.query:
        modes.append(GenerationMode.NEGATIVE)
    cases = st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in modes))
    if "{tile}" in label:  # a path of several parts: schemathesis makes parts without a slash
        cases = st.sampled_from(_TILES).map(
            lambda tile: operation.Case(path_parameters={"tile": tile})
        )

    @settings(
        max_examples=15 if len(modes) > 1 or "{tile}" in label else 1,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases)
    def try_one(case: "schemathesis.Case[Any]") -> None:
        for caller in callers:
            _judge(caller, case)

    try_one()


def test_every_route_is_tried() -> None:
    assert set(_described()) == set(LABELS)


def test_answer_that_is_not_described_is_found(callers: list[Caller]) -> None:
    from schemathesis.core.failures import FailureGroup

    document = copy.deepcopy(DOCUMENT)
    del document["paths"]["/api/v2/update"]["get"]["responses"]["409"]
    document["components"]["schemas"]["StatusData"]["properties"]["code"] = {"type": "string"}
    wrong = _operations(document)
    waiting = next(caller for caller in callers if caller.phase is Phase.ACCEPTING_MANIFEST)

    for label in ("GET /api/v2/update", "GET /api/v2/status"):
        with pytest.raises(FailureGroup):
            _judge(waiting, wrong[label].Case())


def test_served_description_is_the_document_itself(callers: list[Caller]) -> None:
    for caller in callers:
        answer = caller.session.get(f"{caller.address}/api/v2/openapi.json")

        assert answer.headers["content-type"] == "application/json"
        assert json.loads(answer.content) == DOCUMENT
