"""Small uploads are checked when their body is there, and again if the state changes after that."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.peers.client_api import application_of
from support.samples.deployment import running_engine, set_manifest, stored, user
from support.samples.updates import together

from keyhouse.coordinator import Engine, SentUpdate, prepare_update
from keyhouse.server.client_api import Dispatcher
from keyhouse.server.http.exchange import Admission, Answer, Head

HEAD = Head("POST", "/api/v2/secrets", b"", user("writer").der)
BODY = b'{"secrets": {"note": {"key": "eA=="}}}'


def update(word: str = "", **change: Any) -> bytes:
    return together(
        lambda document: document["Users"]["writer"].update(change),
        updaters=["alice"],
        word=word,
        UpdateThreshold=1,
    )


@asynccontextmanager
async def serving(path: Path) -> AsyncIterator[tuple[Engine, Dispatcher]]:
    async with running_engine(path) as engine:
        await set_manifest(engine, update())
        with application_of(engine) as application:
            yield engine, application


def begun(application: Dispatcher, body: bytes = BODY) -> Awaitable[Answer]:
    """Return what becomes of an upload as soon as its body is there."""
    admission = application.admit(HEAD)
    assert isinstance(admission, Admission)
    outcome = admission.run(body)
    assert not isinstance(outcome, Answer)
    return outcome


@pytest.mark.parametrize(("roles", "status"), [(["write"], 200), ([], 403)])
async def test_one_that_an_update_came_before_is_judged_by_the_new_manifest(
    tmp_path: Path, roles: list[str], status: int
) -> None:
    async with serving(tmp_path / "data") as (engine, application):
        raw = update("other", Roles=roles)
        state = engine.view.running
        agreed = engine.queue.add(
            prepare_update(state, SentUpdate(user("alice").der, raw), now=engine.current.now())
        )
        outcome = asyncio.ensure_future(begun(application))
        await asyncio.sleep(0)  # the upload is checked against the manifest that is in force
        assert len(engine.queue.waiting) == 2
        answer = await outcome
        assert (await agreed).view.running.manifest == raw
        assert answer.status == status
        assert ("note" in stored(engine.view)) is (status == 200)


async def test_one_that_is_refused_is_answered_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as (engine, application):
        before = engine.view
        for body, status in ((b"{}", 400), (b'{"secrets": {"other": {"key": "eA=="}}}', 403)):
            answering = asyncio.ensure_future(begun(application, body))
            await asyncio.sleep(0)
            assert answering.done()
            assert (await answering).status == status
        assert engine.view is before
