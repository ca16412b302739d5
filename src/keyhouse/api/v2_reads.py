"""What version 2 of the Client API answers without waiting: one view, no body."""

from typing import Final

import msgspec

from keyhouse.api.bodies import manifest_body, status_body
from keyhouse.api.exchange import Admission, Answer, Head
from keyhouse.api.query import values
from keyhouse.api.quotes import NONCE_BYTES
from keyhouse.api.secret_json import secret_json
from keyhouse.api.service import Service
from keyhouse.coordinator import View, policy_of
from keyhouse.manifest import Action
from keyhouse.wire.base64text import decode_base64url
from keyhouse.wire.errors import BadRequest, NotYet, Unavailable

__all__ = [
    "not_yet",
    "read_manifest",
    "read_quote",
    "read_secrets",
    "read_status",
    "read_update_log",
]

SIMULATION: Final = " (SIMULATION: proves nothing, protects nothing)"


def read_status(service: Service, view: View, head: Head) -> Answer:
    """Answer the phase. Probes look at the HTTP status alone: it is 200 in every phase."""
    del head
    return service.success(status_body(view.phase, SIMULATION if service.simulated else ""), view)


def read_manifest(service: Service, view: View, head: Head) -> Answer:
    """Answer the manifest as it was uploaded, its fingerprint, and the root key's signature."""
    del head
    return service.success(manifest_body(view.running), view)


def read_quote(service: Service, view: View, head: Head) -> Answer | Admission:
    """Answer the certificates and a quote over the root certificate and the caller's nonce."""
    nonce = _nonce(head.query)
    if not nonce:
        return service.success(service.quotes.without_nonce, view)

    async def fresh(body: bytes) -> Answer:
        del body
        try:
            return service.success(await service.quotes.fresh(nonce), service.engine.view)
        except Unavailable as busy:
            return service.refused(busy, head)

    return Admission(0, fresh)


def read_secrets(service: Service, view: View, head: Head) -> Answer:
    """Answer the named secrets, if the user may read every one of them."""
    state = view.running
    names = dict.fromkeys(values(head.query, "s"))
    if not names or "" in names:
        raise BadRequest(
            "no secret is named",
            fields={"s": "is missing or empty"},
            hint="name each secret: /api/v2/secrets?s=one&s=two",
        )
    policy = policy_of(state.manifest)
    policy.authorize(head.identity, Action.READ_SECRET, names)
    definitions = policy.manifest.secrets
    shown = {name: secret_json(definitions[name], state.secrets.get(name)) for name in names}
    return service.success(msgspec.json.encode({"secrets": shown}), view)


def read_update_log(service: Service, view: View, head: Head) -> Answer:
    """Answer every line of the update log, oldest first."""
    del head
    return service.success(service.log_body.of(view.log), view)


def not_yet(service: Service, view: View, head: Head) -> Answer:
    """Refuse: this part of the interface is not built yet."""
    del service, view
    raise NotYet(f"{head.method} {head.path} is not implemented in this version of Keyhouse")


def _nonce(query: bytes) -> bytes:
    """Return the nonce; empty if there is none. Raises ``BadRequest``."""
    if not query:
        return b""
    given = values(query, "nonce")
    if len(given) > 1:
        raise BadRequest("more than one nonce", fields={"nonce": "is given more than once"})
    if not given:
        return b""
    try:
        return decode_base64url(given[0], maximum=NONCE_BYTES)
    except BadRequest as problem:
        raise BadRequest(f"the nonce {problem}", fields={"nonce": str(problem)}) from None
