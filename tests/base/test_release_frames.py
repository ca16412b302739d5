"""Errors in answers hold no values of the calls that raised them."""

import asyncio
import gc
import json
import weakref
from collections.abc import Iterator

import pytest

from keyhouse.base.errors import BadRequestError, release_frames
from keyhouse.server.net.concurrency import ConcurrencyLimit, FairQueue


class Body:
    """An object for a weak reference."""


@pytest.fixture(name="uncollected", autouse=True)
def switch_the_collector_off() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def _fail(body: Body) -> None:
    try:
        json.loads(f"{body} is not JSON")
    except ValueError as error:
        raise BadRequestError("refused") from error


def _refused(body: Body) -> BadRequestError:
    try:
        _fail(body)
    except BadRequestError as refused:
        return refused
    raise AssertionError


def test_error_whose_frames_are_released_holds_no_value_of_a_call() -> None:
    body = Body()
    watched, error = weakref.ref(body), _refused(body)
    del body
    assert watched() is not None
    release_frames(error)
    assert watched() is None
    assert error.__context__ is None
    assert str(error) == "refused"


async def test_work_of_a_queue_that_fails_is_in_no_cycle() -> None:
    """The error of the queue does not hold the task either."""
    queue, body = FairQueue(ConcurrencyLimit(9, "too many")), Body()
    watched = weakref.ref(body)

    async def fail(held: Body) -> None:
        await asyncio.sleep(0)
        raise BadRequestError(f"{type(held)}")

    with pytest.raises(BadRequestError):
        await queue.run(lambda body=body: fail(body))  # type: ignore[misc]  # a default binds it
    del body
    await asyncio.sleep(0)
    assert watched() is None
