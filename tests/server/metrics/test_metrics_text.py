"""Metrics as text: written in slices, read back by the parser of the Prometheus client."""

import asyncio

from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from keyhouse.server.metrics.families import SLICE, labelled, lines_of, text_of

NAME = "keyhouse_user_certificate_expiry_seconds"


def family(count: int) -> Metric:
    return labelled(NAME, [((f"user {number}",), number) for number in range(count)])


class Whole(Collector):
    """What the client library would write at once."""

    def __init__(self, families: list[Metric]) -> None:
        self.families = families

    def collect(self) -> list[Metric]:
        return self.families


async def test_slices_give_the_text_that_the_library_writes_at_once() -> None:
    families = [family(count) for count in (0, 1, SLICE - 1, SLICE, SLICE + 1, 10 * SLICE)]

    assert await text_of(families) == generate_latest(Whole(families))


async def test_others_have_their_turn_while_much_is_written() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await text_of([family(20 * SLICE)])
    task.cancel()

    assert turns >= 20


def test_head_and_lines_are_the_whole_text() -> None:
    head, lines = lines_of(family(3))

    assert head + lines == generate_latest(Whole([family(3)]))
    assert head.count(b"\n") == 2
    assert lines.count(b"\n") == 3


def test_hostile_name_stays_inside_its_label() -> None:
    name = 'a"} 1\n# TYPE x gauge\nx{\\"'
    _, lines = lines_of(labelled(NAME, [((name,), 7)]))

    (read,) = text_string_to_metric_families(lines.decode())

    assert [(one.labels, one.value) for one in read.samples] == [({"user": name}, 7.0)]
