"""Plans over HTTPS: who may ask, that nothing changes, and that a request is bound to its plan."""

import base64
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.peers.answers import checked
from support.peers.openapi import require_described
from support.peers.people import People, deployed
from support.process.server import Reply
from support.samples.updates import Api, raise_version, together

pytestmark = pytest.mark.acceptance

API = Api(2)


def _without_note(document: dict[str, Any]) -> None:
    """Drop a secret, and anyone who may write it with it."""
    del document["Secrets"]["note"]
    del document["Users"]["writer"]
    del document["Roles"]["write"]


FIRST = together()
NEW = together(_without_note, holders=["rk0"])


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    """Everybody at a coordinator that nobody changes."""
    with deployed(tmp_path_factory.mktemp("plans")) as people:
        before = revision(people)
        yield people
        assert revision(people) == before


@pytest.fixture
def people(tmp_path: Path) -> Iterator[People]:
    """Everybody at a coordinator with the first manifest."""
    with deployed(tmp_path) as people:
        yield people


def told(reply: Reply) -> dict[str, Any]:
    """Return the data of a plan, which is as the interface describes it."""
    data = checked(reply).data
    require_described(("POST", "/api/v2/plan"), 200, {}, reply.envelope)
    assert isinstance(data, dict)
    return data


def conflict(reply: Reply) -> str:
    """Return the message of a 409."""
    assert checked(reply).status == 409, reply.body
    return str(reply.envelope["message"])


def revision(people: People) -> tuple[str, list[str]]:
    """Return what every change would change."""
    state = people.nobody.get("/api/v2/status").headers["keyhouse-state"]
    return state, people.nobody.get("/api/v2/update").data["updateLog"]


def test_a_plan_is_told_to_those_who_may_update_and_changes_nothing(shared: People) -> None:
    for name, raw, status in (
        ("nobody", NEW, 401),
        ("stranger", NEW, 401),
        ("writer", NEW, 403),
        ("releaser", NEW, 403),
        ("alice", raise_version(9), 403),
        ("alice", b"{}", 400),
        ("alice", b"[]", 400),
        ("releaser", raise_version(2), 400),
        ("alice", together(lambda document: document["Packages"].clear()), 400),
        ("alice", NEW, 200),
        ("releaser", raise_version(9), 200),
    ):
        reply = checked(API.plan(getattr(shared, name), raw))
        assert reply.status == status, (name, reply.body)


def test_reviewers_agree_to_one_digest_and_it_comes_true(people: People) -> None:
    assert people.writer.upload({"note": b"hello"}).status == 200
    first = told(API.plan(people.alice, NEW))
    whats = {change["what"] for change in first["plan"]["changes"]}
    assert whats >= {"value-lost", "user-removed", "right-lost", "shares-renewed"}
    assert (first["plan"]["users"], first["plan"]["needed"]) == (["alice", "bob", "carol"], 2)
    assert (first["acknowledged"], first["missingAcknowledgments"]) == ([], 2)
    assert API.update(people.alice, NEW, first["digest"]).status == 200
    second = told(API.plan(people.bob, NEW))
    assert (second["digest"], second["plan"]) == (first["digest"], first["plan"])
    assert (second["acknowledged"], second["missingUsers"]) == (["alice"], ["bob", "carol"])
    assert "pending" in conflict(API.plan(people.bob, FIRST))
    assert "pending" in conflict(API.plan(people.releaser, raise_version(9)))
    data = checked(API.acknowledge(people.bob, NEW, second["digest"])).data
    assert list(data["recoverySecrets"]) == ["rk0"]
    assert base64.b64decode(people.nobody.get("/api/v2/manifest").data["manifest"]) == NEW
    assert people.writer.get("/api/v2/secrets?s=note").status == 401
    assert told(API.plan(people.carol, NEW))["plan"]["changes"] == []


@pytest.mark.parametrize("plan", ["", "00", "0" * 63 + "g", "AB" * 32, 7, ["00" * 32]])
def test_what_is_no_digest_is_a_failure_of_the_client(shared: People, plan: object) -> None:
    body = {"manifest": base64.b64encode(NEW).decode(), "plan": plan}
    for path in ("/api/v2/update", "/api/v2/update-manifest"):
        reply = checked(shared.alice.call("POST", path, json.dumps(body).encode()))
        assert (reply.status, reply.envelope["status"]) == (400, "fail")
        assert list(reply.envelope["data"]) == ["plan"]


def test_what_was_reviewed_and_is_no_longer_true_is_refused(people: People) -> None:
    old = told(API.plan(people.alice, NEW))["digest"]
    assert API.update(people.releaser, raise_version(5)).status == 200  # it lowers this now
    now = told(API.plan(people.bob, NEW))["digest"]
    assert now != old
    for plan in (old, "00" * 32):
        assert f"its digest is now {now}" in conflict(API.update(people.alice, NEW, plan))
        assert API.pending(people.nobody).status == 404
    assert API.update(people.alice, NEW, now).status == 200
    assert people.writer.upload({"note": b"late"}).status == 200  # and this would be lost now
    late = told(API.plan(people.bob, NEW))["digest"]
    assert late != now
    assert f"its digest is now {late}" in conflict(API.acknowledge(people.bob, NEW, now))
    assert people.writer.upload({"note": b"later"}).status == 200  # what is lost is no longer asked
    assert API.pending(people.nobody).data["missingUsers"] == ["bob", "carol"]
    assert API.acknowledge(people.bob, NEW, late).status == 200


def test_security_versions_are_bound_to_their_plan_too(people: People) -> None:
    old = told(API.plan(people.releaser, raise_version(9)))["digest"]
    assert API.update(people.releaser, raise_version(5)).status == 200
    assert "its digest is now" in conflict(API.update(people.releaser, raise_version(9), old))
    now = told(API.plan(people.releaser, raise_version(9)))
    (change,) = now["plan"]["changes"]
    assert (change["before"], change["after"]) == ("5", "9")
    assert API.update(people.releaser, raise_version(9), now["digest"]).status == 200


def test_no_value_is_lost_that_came_while_the_update_was_prepared(tmp_path: Path) -> None:
    def slow(document: dict[str, Any]) -> None:
        _without_note(document)
        document["Secrets"]["rsa"] = {"Type": "cert-rsa", "Size": 2048, "Shared": True}

    new = together(slow)
    with deployed(tmp_path, together(UpdateThreshold=1)) as people:
        plan = told(API.plan(people.alice, new))["digest"]
        assert people.writer.get("/api/v2/secrets?s=note").status == 200  # both are connected
        with ThreadPoolExecutor(2) as threads:
            updated = threads.submit(API.update, people.alice, new, plan)
            uploaded = threads.submit(people.writer.upload, {"note": b"hello"})
        found = (checked(updated.result()).status, checked(uploaded.result()).status)
        assert found in {(409, 200), (200, 401), (200, 403)}
