"""What time brings about while nobody asks: certificates end, and a clock jumps."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path

from support.captured_log import capture_logs
from support.peers.client_api import application_of
from support.samples.deployment import NOW, FixedClock, moment, running_engine, set_manifest
from support.samples.expiry import manifest_with

from keyhouse.server.client_api import Dispatcher
from keyhouse.server.http.exchange import Answer, Head
from keyhouse.server.process.serving import expiry_reminders

HOUR = 3600 * 1_000_000  # microseconds
STATUS = Head("GET", "/api/v2/status", b"", None)
MOST_NAMED = "the certificate of a user has expired"


def status(application: Dispatcher) -> str:
    answer = application.admit(STATUS)
    assert isinstance(answer, Answer)
    return str(json.loads(answer.body)["data"]["message"])


async def test_a_certificate_that_ends_later_is_told_of_without_any_change(tmp_path: Path) -> None:
    clock = FixedClock()
    async with running_engine(tmp_path / "state", clock) as engine:
        await set_manifest(engine, manifest_with({"ann": moment(NOW) + timedelta(minutes=1)}))
        with application_of(engine) as application:
            assert "expired" not in status(application)
            clock.time += HOUR
            with capture_logs() as entries:
                async with expiry_reminders(engine, application.forget_answers, every=0.001):
                    while not any(e["event"] == MOST_NAMED for e in entries):  # noqa: ASYNC110 a log
                        await asyncio.sleep(0.001)
            assert "have expired and still identify them: 1" in status(application)


async def test_clock_is_read_also_while_nobody_asks_for_anything(tmp_path: Path) -> None:
    clock = FixedClock()
    async with running_engine(tmp_path / "state", clock) as engine:
        clock.time += 12 * 365 * 24 * HOUR
        async with expiry_reminders(engine, lambda: None, poll=0.001):
            while engine.current.clock.is_followed:  # noqa: ASYNC110 it is read by a task of its own
                await asyncio.sleep(0.001)
        assert engine.current.now() == NOW
