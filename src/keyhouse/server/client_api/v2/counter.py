"""Monotonic counters of workloads.

Source: wire reference, "Monotonic counters".
"""

from typing import Final

from keyhouse.base.errors import BadRequest
from keyhouse.coordinator import Running, SetCounter, counter_of
from keyhouse.server.client_api.service import Service
from keyhouse.server.http.body import read_body
from keyhouse.server.http.exchange import Answer, Head
from keyhouse.server.services.marbles import identify_marble
from keyhouse.wire.client_api import CounterBody, CounterData

__all__ = ["LONGEST_NAME", "raise_counter"]

LONGEST_NAME: Final = 256
"""Bytes of a counter's name in UTF-8; it may be empty."""


async def raise_counter(service: Service, head: Head, body: bytes) -> Answer:
    """Raise a counter of the calling workload, if it is lower; answer its value before.

    What is answered is durable.
    """
    wanted = read_body(body, CounterBody)
    if len(wanted.name.encode(errors="surrogatepass")) > LONGEST_NAME:
        raise BadRequest(
            "the name of the counter is too long",
            fields={"name": f"has more than {LONGEST_NAME} bytes"},
        )
    state = service.judged_again(head).running
    caller = identify_marble(state, head.identity, now=service.engine.now())
    marble = (caller.marble_type, caller.uuid)
    command = SetCounter(state.keys.marble_root_cert, marble, wanted.name, wanted.value)
    decision = await service.engine.decision(command)
    assert isinstance(decision.before, Running)  # noqa: S101 it was decided
    data = CounterData(counter_of(decision.before, marble, wanted.name))
    return service.success(data, decision.view)
