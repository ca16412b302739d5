"""The description of the interface as it is served: made once, for the first client that asks."""

from functools import cache

import msgspec

from keyhouse.coordinator import View
from keyhouse.server.client_api.answers import Answers
from keyhouse.server.http.exchange import Admission, Answer, Head
from keyhouse.server.services.preparation import Preparation

__all__ = ["encoded_openapi", "read_openapi"]


@cache
def encoded_openapi() -> bytes:
    """Return the description of all routes as JSON, in UTF-8."""
    from keyhouse.server.client_api import ROUTES
    from keyhouse.server.client_api.description.openapi import openapi

    return msgspec.json.encode(openapi(ROUTES)) + b"\n"


def read_openapi(
    preparation: Preparation, answers: Answers, view: View, head: Head
) -> Answer | Admission:
    """Answer the OpenAPI document itself: generic tools know nothing of envelopes."""
    del head
    if encoded_openapi.cache_info().currsize:
        return Answer(200, encoded_openapi(), answers.headers(view))

    async def made(body: bytes) -> Answer:
        del body
        return Answer(200, await preparation.off_loop(encoded_openapi), answers.headers(view))

    return Admission(0, made)
