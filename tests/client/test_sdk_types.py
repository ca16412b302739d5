"""What type checkers see of the SDK: these functions are checked by mypy, and their shape here."""

import inspect
from collections.abc import Coroutine
from typing import Any, assert_type

from keyhouse.base.secret import Secret
from keyhouse.client import (
    AsyncCoordinator,
    Coordinator,
    CurrentManifest,
    Pending,
    SecretObject,
    Status,
    UpdateAnswer,
)
from keyhouse.client.steps import Answer, Request


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


def test_programs_that_look_see_the_same() -> None:
    operation = inspect.getattr_static(Coordinator, "verify_manifest")
    shown = operation.__signature__
    assert list(shown.parameters) == ["expected"]
    assert shown.return_annotation is CurrentManifest
    assert operation is inspect.getattr_static(AsyncCoordinator, "verify_manifest")
    assert "in force" in operation.__doc__


def test_no_request_or_answer_shows_what_is_in_it() -> None:
    body = b"CANARY of a secret"
    shown = repr((Request("POST", "/x", body=Secret(body)), Answer(200, body)))
    assert "CANARY" not in shown
    assert "18 bytes" in shown
