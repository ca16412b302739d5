"""The shapes of what version 1 of the Client API answers without waiting."""

from collections.abc import Callable

from keyhouse.base.errors import GoneError
from keyhouse.coordinator import Running, View
from keyhouse.server.client_api.answers import Answers
from keyhouse.server.client_api.bodies import (
    LogText,
    evidence_body,
    manifest_body_1,
    status_message,
)
from keyhouse.server.client_api.secret_json import encode_secrets, read_named_secrets
from keyhouse.server.http.exchange import Admission, Answer, Head
from keyhouse.server.services.quotes import Quotes
from keyhouse.wire.client_api import OldStatusData

__all__ = [
    "read_manifest",
    "read_quote",
    "read_secrets",
    "read_status",
    "read_update_log",
    "recover",
]


def read_status(now: Callable[[], int], answers: Answers, view: View, head: Head) -> Answer:
    """Answer the phase."""
    del head
    message = status_message(view, simulated=answers.simulated, now=now())
    return answers.success(OldStatusData(int(view.phase), message), view)


def read_manifest(answers: Answers, view: View, head: Head) -> Answer:
    """Answer the manifest; before there is one, 200 with nothing in it, as clients expect."""
    del head
    state = view.state
    return answers.shared(manifest_body_1(state if isinstance(state, Running) else None), view)


def read_quote(quotes: Quotes, answers: Answers, view: View, head: Head) -> Answer:
    """Answer the certificates and the quote without a nonce, whatever the query says."""
    del head
    return answers.encoded(evidence_body(quotes.without_nonce(view.state.keys)), view)


def read_secrets(answers: Answers, view: View, head: Head) -> Answer:
    """Answer the named secrets, without a field around them."""
    return answers.encoded(encode_secrets(read_named_secrets(view, head)), view)


def read_update_log(log: LogText, answers: Answers, view: View, head: Head) -> Answer:
    """Answer one string: the log as a JSON array of objects."""
    del head
    return answers.shared(log.of(view.log), view)


def recover(view: View, head: Head) -> Answer | Admission:
    """Refuse: version 1 never had what recovery needs now."""
    del view, head
    raise GoneError("recovery has moved", hint="use POST /api/v2/recover")
