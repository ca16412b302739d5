"""The shapes of what version 1 of the Client API answers without waiting."""

from keyhouse.base.errors import Gone
from keyhouse.coordinator import Running, View
from keyhouse.server.client_api.bodies import manifest_body_1, status_message
from keyhouse.server.client_api.secret_json import encode_secrets, read_named_secrets
from keyhouse.server.client_api.service import Service
from keyhouse.server.http.exchange import Admission, Answer, Head
from keyhouse.wire.client_api import OldStatusData

__all__ = [
    "read_manifest",
    "read_quote",
    "read_secrets",
    "read_status",
    "read_update_log",
    "recover",
]


def read_status(service: Service, view: View, head: Head) -> Answer:
    """Answer the phase."""
    del head
    message = status_message(view, simulated=service.simulated, now=service.engine.now())
    return service.success(OldStatusData(int(view.phase), message), view)


def read_manifest(service: Service, view: View, head: Head) -> Answer:
    """Answer the manifest; before there is one, 200 with nothing in it, as clients expect."""
    del head
    state = view.state
    return service.shared(manifest_body_1(state if isinstance(state, Running) else None), view)


def read_quote(service: Service, view: View, head: Head) -> Answer:
    """Answer the certificates and the quote without a nonce, whatever the query says."""
    del head
    return service.encoded(service.quotes.without_nonce(view.state.keys), view)


def read_secrets(service: Service, view: View, head: Head) -> Answer:
    """Answer the named secrets, without a field around them."""
    return service.encoded(encode_secrets(read_named_secrets(view, head)), view)


def read_update_log(service: Service, view: View, head: Head) -> Answer:
    """Answer one string: the log as a JSON array of objects."""
    del head
    return service.shared(service.log_text.of(view.log), view)


def recover(service: Service, view: View, head: Head) -> Answer | Admission:
    """Refuse: version 1 never had what recovery needs now."""
    del service, view, head
    raise Gone("recovery has moved", hint="use POST /api/v2/recover")
