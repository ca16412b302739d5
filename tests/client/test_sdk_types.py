"""What type checkers see of the SDK: these functions are checked by mypy, and their shape here."""

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, assert_type

import pytest
from support.sdk_methods import METHODS, methods

import keyhouse
from keyhouse.base.secret import Secret
from keyhouse.client import (
    AsyncCoordinator,
    Coordinator,
    CurrentManifest,
    Pending,
    SecretObject,
    Status,
    Trust,
    UpdateAnswer,
)
from keyhouse.client.effects import HttpAnswer, HttpRequest


def blocking(session: Coordinator) -> None:
    assert_type(session.status(), Status)
    assert_type(session.secrets(["a"]), dict[str, SecretObject])
    assert_type(session.pending(), Pending | None)
    assert_type(session.update(b"{}", keep=print), UpdateAnswer)
    session.status(1)  # type: ignore[call-arg]
    session.secrets(7)  # type: ignore[arg-type]


async def on_a_loop(session: AsyncCoordinator) -> None:
    await assert_type(session.status(), Coroutine[Any, Any, Status])
    assert_type(await session.verify_manifest(b"{}"), CurrentManifest)
    assert_type(await session.pending(), Pending | None)
    await session.recover(b"share")  # type: ignore[call-arg]


def as_a_program_begins() -> None:
    trust = keyhouse.Trust.from_files("attestation.json", pccs="https://pccs.example.com:8081")
    assert_type(trust, Trust)
    with keyhouse.Coordinator.from_context("prod") as session:
        assert_type(session, Coordinator)
    keyhouse.Cordinator  # type: ignore[attr-defined]  # noqa: B018 checkers know what there is


async def as_an_async_program_begins() -> None:
    async with keyhouse.AsyncCoordinator.from_context() as session:
        assert_type(session, AsyncCoordinator)


def public(kind: type) -> dict[str, Callable[..., Any]]:
    found = inspect.getmembers(kind, inspect.isroutine)
    return {name: member for name, member in found if not name.startswith("_")}


def test_the_methods_are_as_the_operations_have_them() -> None:
    assert METHODS.read_text(encoding="utf-8") == methods(), (
        "PYTHONPATH=tests .venv/bin/python -m support.sdk_methods"
    )


@pytest.mark.parametrize("name", sorted(public(Coordinator)))
def test_programs_that_look_see_the_same_function_of_both_kinds(name: str) -> None:
    blocking, awaited = public(Coordinator)[name], public(AsyncCoordinator)[name]
    shown = inspect.signature(blocking)

    assert inspect.getdoc(blocking)
    assert inspect.getdoc(awaited)
    assert list(shown.parameters) == list(inspect.signature(awaited).parameters)
    assert shown.return_annotation is not shown.empty
    assert all(each.annotation for each in shown.parameters.values())
    assert name in inspect.getsource(blocking)


def test_operations_are_functions_of_their_own() -> None:
    assert inspect.iscoroutinefunction(AsyncCoordinator.secrets)
    assert str(inspect.signature(Coordinator.cancel)) == "(self) -> None"
    assert inspect.isfunction(Coordinator.secrets)


def test_no_request_or_answer_shows_what_is_in_it() -> None:
    body = b"CANARY of a secret"
    shown = repr((HttpRequest("POST", "/x", body=Secret(body)), HttpAnswer(200, body)))
    assert "CANARY" not in shown
    assert "18 bytes" in shown
