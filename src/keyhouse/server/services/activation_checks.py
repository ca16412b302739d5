"""What an activation has to pass before anything is made for it: each check names what failed.

Source: workload API, "Checks in order".
"""

from uuid import UUID

from keyhouse.attestation import IdentityRefusedError, Verdict, quote_binding
from keyhouse.attestation.appraisal import admit
from keyhouse.attestation.quote.binding import require_binding
from keyhouse.attestation.quote.form import MAX_QUOTE
from keyhouse.base.errors import ForbiddenError, InvalidError, Problem, UnauthenticatedError
from keyhouse.base.printable import quoted
from keyhouse.coordinator import Running
from keyhouse.coordinator.activation import package_in_force
from keyhouse.coordinator.core.policy import Recipe, policy_of
from keyhouse.server.net.error_mapping import OutdatedConnectionError
from keyhouse.wire.workload_api import uuid_of


def require_identity(identity: bytes | None) -> bytes:
    """Return the DER of the workload's TLS certificate. Raises ``UnauthenticatedError``."""
    if identity is None:
        raise UnauthenticatedError(
            "no client certificate was presented",
            hint="connect with the certificate that the quote was made for",
        )
    return identity


def require_shown(state: Running, shown: bytes | None) -> None:
    """Refuse a workload whose handshake has shown another marble root than that of ``state``.

    What it would get is issued by the present root, and it could not trust that: nothing may be
    counted for it. Raises ``OutdatedConnectionError``; on a new connection it is served. None: the
    request did not come over a connection.
    """
    if shown is not None and shown != state.keys.marble_root_cert:
        raise OutdatedConnectionError(
            "the marble root was replaced since this connection began",
            hint="connect again; nothing was counted",
        )


def require_recipe(state: Running, marble_type: str) -> Recipe:
    """Return what the type takes.

    Raises ``ForbiddenError`` if the manifest has none of this name.
    """
    recipe = policy_of(state.manifest).recipe(marble_type)
    if recipe is None:
        raise ForbiddenError(
            f"the manifest has no marble type {quoted(marble_type)}",
            hint="types are case-sensitive; keyhouse manifest get prints them",
        )
    return recipe


def read_uuid(text: str) -> UUID:
    """Return the UUID that a workload chose. Raises ``InvalidError``, also for the nil UUID."""
    uuid = uuid_of(text)
    if uuid is None:
        raise _uuid_refused("is not a UUID", "send 36 characters, such as those of uuidgen")
    if uuid.int == 0:
        raise _uuid_refused("is nil", "give each workload a UUID of its own")
    return uuid


def require_quote(quote: bytes, *, simulated: bool) -> bool:
    """Return whether there is a quote to verify; only in simulation there need be none.

    Raises:
        ForbiddenError: there is none. Invalid: it is too large to be one.
    """
    if len(quote) > MAX_QUOTE:
        problem = Problem("Quote", f"is larger than {MAX_QUOTE} bytes", "send a DCAP quote")
        raise InvalidError("the activation", [problem])
    if not quote and not simulated:
        raise ForbiddenError(
            "the workload sent no quote",
            hint="run it in an enclave, with a launcher that makes quotes",
        )
    return bool(quote)


def require_admitted(
    state: Running, recipe: Recipe, verdict: Verdict | None, identity: bytes
) -> None:
    """Raise ``ForbiddenError`` with the rule unless the package in force admits the enclave."""
    if verdict is None:
        return
    package = recipe.marble.package
    try:
        admit(verdict, package_in_force(state, package), binding=quote_binding(identity))
    except IdentityRefusedError as refused:
        raise ForbiddenError(
            f"package {quoted(package)} does not admit the workload: {refused.message}",
            hint=refused.hint,
        ) from refused


def is_made_for(verdict: Verdict, identity: bytes) -> bool:
    """Tell whether the quote was made for ``identity``: anybody can show one that others made."""
    try:
        require_binding(verdict.report_data, quote_binding(identity))
    except IdentityRefusedError:
        return False
    return True


def _uuid_refused(problem: str, hint: str) -> InvalidError:
    return InvalidError("the activation", [Problem("UUID", problem, hint)])
