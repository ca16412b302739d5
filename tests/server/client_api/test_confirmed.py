"""Replicas answer from the newest state, whatever their own view shows."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from support.peers.client_api import replica_of, said
from support.samples.deployment import upload, user
from support.samples.replicas import begin, engine_on
from support.samples.simulated_store import Database, SimulatedStore
from support.samples.simulated_time import in_simulated_time, until_idle
from support.samples.updates import together

from keyhouse.coordinator import Engine, SentUpdate, prepare_update
from keyhouse.server.http.exchange import (
    Admission,
    Answer,
    Application,
    Deferred,
    Head,
    PlacedHead,
    ProtocolRefusal,
)

NOTE = "/api/v2/secrets"


def _manifest(*, writes: bool) -> bytes:
    def change(document: dict[str, Any]) -> None:
        if not writes:
            del document["Users"]["writer"]

    return together(change, updaters=["alice"], UpdateThreshold=1, SealMode="Disabled")


class Two(NamedTuple):
    """One engine that writes, and what answers over another that hears nothing of it."""

    one: Engine
    other: Engine
    store: SimulatedStore  # of the other
    api: Application  # of the other

    async def ask(
        self,
        path: str = "/api/v2/status",
        by: str = "",
        body: bytes | None = None,
        *,
        at_least: str | None = None,
    ) -> Answer:
        """Return the answer to a request, as the protocol gets it."""
        method = "GET" if body is None else "POST"
        query = b"s=note" if method == "GET" and path == NOTE else b""
        head = Head(method, path, query, user(by).der if by else None)
        if at_least is not None:
            head = PlacedHead(method, path, query, head.identity, at_least.encode(), head)
        verdict = self.api.admit(head)
        if isinstance(verdict, Deferred):
            verdict = await said(verdict)
        if isinstance(verdict, Admission):
            outcome = verdict.run(body or b"")
            return outcome if isinstance(outcome, Answer) else await outcome
        return verdict

    async def update(self, *, writes: bool) -> None:
        """Let or do not let ``writer`` read and write."""
        state = self.one.view.running
        raw = _manifest(writes=writes)
        command = prepare_update(
            state, SentUpdate(user("alice").der, raw), now=self.one.current.now()
        )
        await self.one.submit(command)


@asynccontextmanager
async def two(path: Path, *, writes: bool = True) -> AsyncIterator[Two]:
    database, store = Database(), None
    await begin(SimulatedStore(database), _manifest(writes=writes))
    store = SimulatedStore(database)
    async with (
        engine_on(SimulatedStore(database), path / "a") as one,
        engine_on(store, path / "b") as other,
    ):
        await until_idle()
        store.deaf = True
        with replica_of(other) as api:
            yield Two(one, other, store, api)


def place(answer: Answer) -> str:
    """Return the value of ``Keyhouse-State``; "" if it is not there."""
    return dict(answer.headers).get(b"keyhouse-state", b"").decode()


def told(answer: Answer) -> str:
    message: str = json.loads(answer.body)["message"]
    return message


BODY = b'{"secrets": {"note": {"key": "eA=="}}}'


@in_simulated_time
async def test_reads_show_what_another_replica_has_acknowledged(tmp_path: Path) -> None:
    async with two(tmp_path) as replicas:
        for value in (b"one", b"two"):
            await upload(replicas.one, {"note": value})
            answer = await replicas.ask(NOTE, "writer")
            assert place(answer) == replicas.one.view.revision
            found = json.loads(answer.body)["data"]["secrets"]["note"]
            assert base64.b64decode(found["private"]) == value


@in_simulated_time
async def test_a_permission_that_another_replica_revoked_is_used_by_nobody(
    tmp_path: Path,
) -> None:
    async with two(tmp_path) as replicas:
        await upload(replicas.one, {"note": b"one"})
        assert (await replicas.ask(NOTE, "writer")).status == 200
        await replicas.update(writes=False)
        assert (await replicas.ask(NOTE, "writer", BODY)).status == 401
        await replicas.update(writes=True)
        assert (await replicas.ask(NOTE, "writer")).status == 200
        await replicas.update(writes=False)
        answer = await replicas.ask(NOTE, "writer")
        assert (answer.status, place(answer)) == (401, replicas.one.view.revision)


@in_simulated_time
async def test_a_permission_that_another_replica_gave_counts_at_once(tmp_path: Path) -> None:
    async with two(tmp_path, writes=False) as replicas:
        assert (await replicas.ask(NOTE, "writer", BODY)).status == 401
        await replicas.update(writes=True)
        answer = await replicas.ask(NOTE, "writer", BODY)
        assert (answer.status, place(answer)) == (200, replicas.other.view.revision)


@in_simulated_time
async def test_an_upload_that_is_accepted_needs_no_look(tmp_path: Path) -> None:
    async with two(tmp_path) as replicas:
        before = replicas.store.looks
        for size in (1, 2000):  # in place, and in a thread
            for seen in (None, replicas.other.view.revision):
                await upload(replicas.one, {"note": b"before"})
                body = BODY.replace(b"eA==", base64.b64encode(b"x" * size))
                answer = await replicas.ask(NOTE, "writer", body, at_least=seen)
                assert (answer.status, place(answer)) == (200, replicas.other.view.revision)
        assert replicas.store.looks == before
        assert (await replicas.ask(NOTE, "writer", BODY.replace(b"eA==", b"?"))).status == 400
        assert replicas.store.looks == before + 1


@in_simulated_time
async def test_all_refusals_are_of_the_newest_state(tmp_path: Path) -> None:
    async with two(tmp_path) as replicas:
        cases: tuple[tuple[str, str, bytes | None, int], ...] = (
            ("/nothing", "", None, 405),
            ("/api/v2/update-manifest", "", None, 404),
            (NOTE, "writer", b"{}", 400),
            ("/api/v2/manifest", "", b"{}", 409),
            ("/api/v2/quote", "", None, 200),
            ("/api/v2/openapi.json", "", None, 200),
        )
        for path, by, body, status in cases:
            await upload(replicas.one, {"note": b"more"})
            answer = await replicas.ask(path, by, body)
            assert (answer.status, place(answer)) == (status, replicas.one.view.revision)
        await upload(replicas.one, {"note": b"more"})
        refusal = replicas.api.refuse(ProtocolRefusal(400, "headers", "x"))
        assert isinstance(refusal, Deferred)
        assert place(await said(refusal)) == replicas.one.view.revision


@in_simulated_time
async def test_without_the_store_each_answer_is_503_and_tells_no_place(tmp_path: Path) -> None:
    async with two(tmp_path) as replicas:
        replicas.store.down = True
        refused = replicas.api.refuse(ProtocolRefusal(400, "headers", "x"))
        assert isinstance(refused, Deferred)
        later = said(refused)
        busy = replicas.api.refuse(ProtocolRefusal(503, "connection", "x"))
        assert isinstance(busy, Answer)
        for answer in (
            await replicas.ask(),
            await replicas.ask("/nothing"),
            await replicas.ask(NOTE, "writer"),
            await replicas.ask(NOTE, "writer", BODY),
            await replicas.ask(NOTE, "nobody", BODY),
            await later,
        ):
            assert (answer.status, place(answer)) == (503, "")
            assert (b"retry-after", b"1") in answer.headers
        assert place(busy) == ""


@in_simulated_time
async def test_a_replica_names_itself(tmp_path: Path) -> None:
    async with two(tmp_path) as replicas:
        name = replicas.other.process.instance[:4].hex().encode()
        for path in ("/api/v2/status", "/nothing"):
            assert (b"keyhouse-replica", name) in (await replicas.ask(path)).headers
        replicas.store.down = True
        assert (b"keyhouse-replica", name) in (await replicas.ask()).headers


@in_simulated_time
async def test_a_client_is_answered_from_what_continues_the_place_it_has_seen(
    tmp_path: Path,
) -> None:
    async with two(tmp_path) as replicas:
        seen = [replicas.one.view.revision]
        for number in range(3):
            await upload(replicas.one, {"note": b"%d" % number})
            seen.append(replicas.one.view.revision)
        for revision in seen:
            for body in (None, BODY):
                answer = await replicas.ask(NOTE, "writer", body, at_least=revision)
                assert (answer.status, place(answer)) == (200, replicas.other.view.revision)
        # A start remembers the places of all records that it reads, also of the oldest.
        answer = await replicas.ask(NOTE, "writer", at_least="1.1.0011223344556677")
        assert answer.status == 409


@in_simulated_time
async def test_a_place_that_is_ahead_or_of_another_history_is_refused(tmp_path: Path) -> None:
    async with two(tmp_path) as replicas:
        await upload(replicas.one, {"note": b"before"})
        epoch, sequence, chain = replicas.one.view.revision.split(".")
        await upload(replicas.one, {"note": b"after"})
        for body in (None, BODY):
            ahead = await replicas.ask(NOTE, "writer", body, at_least=f"1.{10**6}.{chain}")
            assert (ahead.status, place(ahead)) == (503, "")
            assert f"1.{10**6}.{chain}" in told(ahead)
            for other in (
                f"{epoch}.{sequence}.{'0' * 16}",
                f"9.{sequence}.{chain}",
                f"2.1.{chain}",
            ):
                fork = await replicas.ask(NOTE, "writer", body, at_least=other)
                assert (fork.status, place(fork)) == (409, replicas.other.view.revision)
                assert other in told(fork)
            for text in ("", "1.2", f"1.2.{chain}, 1.2.{chain}"):
                assert (await replicas.ask(NOTE, "writer", body, at_least=text)).status == 400
