"""The checks of an activation, before the coordinator creates anything. Each error names its check.

Source: ``docs/reference/activations.md``, "Checks".
"""

from uuid import UUID

from keyhouse.attestation import IdentityRefusedError, Verdict, quote_binding
from keyhouse.attestation.quote.binding import require_binding
from keyhouse.attestation.quote.report import MAX_QUOTE
from keyhouse.base.errors import ForbiddenError, InvalidError, Problem, UnauthenticatedError
from keyhouse.base.printable import quoted
from keyhouse.coordinator import Running
from keyhouse.coordinator.activation import package_in_force
from keyhouse.coordinator.core.policy import Recipe, policy_of
from keyhouse.server.net.error_mapping import OutdatedConnectionError
from keyhouse.wire.workload_api import uuid_of


def require_identity(identity: bytes | None) -> bytes:
    """Return ``identity``, the workload's TLS certificate in DER.

    Raises ``UnauthenticatedError`` if the workload presented no certificate.
    """
    if identity is None:
        raise UnauthenticatedError(
            "no client certificate was presented",
            hint="connect with the certificate that the quote was made for",
        )
    return identity


def require_current_root(state: Running, presented_root: bytes | None) -> None:
    """Refuse a workload whose handshake showed another marble root than that of ``state``.

    The root of ``state`` would issue the certificates, and a workload accepts only certificates
    under the root of its handshake. Such an activation must not count. Raises
    ``OutdatedConnectionError``; the workload succeeds on a new connection. ``presented_root``: the
    DER of the marble root in the handshake, or None without a connection.
    """
    if presented_root is not None and presented_root != state.keys.marble_root_cert:
        raise OutdatedConnectionError(
            "the marble root was replaced since this connection began",
            hint="connect again; nothing was counted",
        )


def require_recipe(state: Running, marble_type: str) -> Recipe:
    """Return the recipe of ``marble_type``, with the parameters for its activations.

    Raises ``ForbiddenError`` if the manifest has no type of this name.
    """
    recipe = policy_of(state.manifest).recipe(marble_type)
    if recipe is None:
        raise ForbiddenError(
            f"the manifest has no marble type {quoted(marble_type)}",
            hint="types are case-sensitive; keyhouse manifest get prints them",
        )
    return recipe


def read_uuid(text: str) -> UUID:
    """Return the UUID of a workload from ``text``.

    Raises ``InvalidError``, even for the nil UUID.
    """
    uuid = uuid_of(text)
    if uuid is None:
        raise _uuid_refused("is not a UUID", "send 36 characters, such as those of uuidgen")
    if uuid.int == 0:
        raise _uuid_refused("is nil", "choose a separate UUID for each workload")
    return uuid


def require_quote(quote: bytes, *, simulated: bool) -> bool:
    """Return whether the request has a quote to verify.

    ``simulated``: the platform is a simulation. Only there a quote may be missing.

    Raises:
        ForbiddenError: there is no quote.
        InvalidError: the quote is too large.
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
    state: Running, recipe: Recipe, verdict: Verdict | None, binding: bytes
) -> None:
    """Raise ``ForbiddenError`` with the failed rule unless the package admits the enclave.

    The package is the package of ``recipe``. ``binding``: the 32 bytes that the quote must bind.
    ``verdict``: the verdict on the quote. None: simulation without a quote, which is admitted.
    """
    if verdict is None:
        return
    from keyhouse.attestation.appraisal import admit  # no start has a verdict

    package = recipe.marble.package
    try:
        admit(verdict, package_in_force(state, package), binding=binding)
    except IdentityRefusedError as refused:
        raise ForbiddenError(
            f"package {quoted(package)} does not admit the workload: {refused.message}",
            hint=refused.hint,
        ) from refused


def is_made_for(verdict: Verdict, identity: bytes) -> bool:
    """Return whether the quote binds ``identity``, the workload's TLS certificate in DER.

    Everybody can send the quote of another workload.
    """
    try:
        require_binding(verdict.report_data, quote_binding(identity))
    except IdentityRefusedError:
        return False
    return True


def _uuid_refused(problem: str, hint: str) -> InvalidError:
    return InvalidError("the activation", [Problem("UUID", problem, hint)])
