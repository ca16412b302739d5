"""The shape of raising a monotonic counter.

Source: wire reference, "Monotonic counters".
"""

from typing import Final

from keyhouse.base.errors import BadRequest
from keyhouse.server.client_api.answers import Answers
from keyhouse.server.http.body import read_body
from keyhouse.server.http.exchange import Answer, Head
from keyhouse.server.services.counters import Counters
from keyhouse.wire.client_api import CounterBody, CounterData

__all__ = ["LONGEST_NAME", "raise_counter"]

LONGEST_NAME: Final = 256
"""Bytes of a counter's name in UTF-8; it may be empty."""


async def raise_counter(counters: Counters, answers: Answers, head: Head, body: bytes) -> Answer:
    """Raise a counter of the calling workload, if it is lower; answer its value before."""
    wanted = read_body(body, CounterBody)
    if len(wanted.name.encode(errors="surrogatepass")) > LONGEST_NAME:
        raise BadRequest(
            "the name of the counter is too long",
            fields={"name": f"has more than {LONGEST_NAME} bytes"},
        )
    before, view = await counters.raise_to(head.identity, wanted.name, wanted.value)
    return answers.success(CounterData(before), view)
