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
            "the workload presented no TLS client certificate, and an activation needs one",
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
            hint="connect again and repeat the call; nothing has changed",
        )


def require_recipe(state: Running, marble_type: str) -> Recipe:
    """Return the recipe of ``marble_type``: the parameters and secrets for its activations.

    Raises ``ForbiddenError`` if the manifest has no type of this name.
    """
    recipe = policy_of(state.manifest).recipe(marble_type)
    if recipe is None:
        raise ForbiddenError(
            f"the manifest has no marble type {quoted(marble_type)}",
            hint="use a type that keyhouse manifest get prints; types are case-sensitive",
        )
    return recipe


def read_uuid(text: str) -> UUID:
    """Return the UUID of a workload from ``text``.

    Raises ``InvalidError`` if the text is not a UUID, or is the nil UUID.
    """
    uuid = uuid_of(text)
    if uuid is None:
        raise _uuid_refused("is not a UUID", "send a UUID of 36 characters, as uuidgen prints")
    if uuid.int == 0:
        raise _uuid_refused("must not be the nil UUID", "choose a separate UUID for each workload")
    return uuid


def require_quote(quote: bytes, *, simulated: bool) -> bool:
    """Return whether the request has a quote to verify.

    ``simulated``: the platform is a simulation. Only there a quote may be missing.

    Raises:
        ForbiddenError: there is no quote.
        InvalidError: the quote is too large.
    """
    if len(quote) > MAX_QUOTE:
        problem = Problem(
            "Quote",
            f"has {len(quote)} bytes, must have at most {MAX_QUOTE}",
            "send the quote of the workload's platform without other data",
        )
        raise InvalidError("the activation", [problem])
    if not quote and not simulated:
        raise ForbiddenError(
            "the workload sent no quote, and an activation needs a quote",
            hint="run the workload in an enclave or a confidential VM, with a launcher that makes"
            " quotes",
        )
    return bool(quote)


def require_admitted(
    state: Running, recipe: Recipe, verdict: Verdict | None, binding: bytes
) -> None:
    """Require that the package of ``recipe`` admits the workload by its quote.

    ``verdict``: the verdict on the quote. None: simulation without a quote, which is admitted.
    ``binding``: the 32 bytes that the quote must bind. Raises ``ForbiddenError``, which states the
    failed rule.
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

    Everybody can send a quote of another workload, so a verified quote alone does not show its
    sender.
    """
    try:
        require_binding(verdict.report_data, quote_binding(identity))
    except IdentityRefusedError:
        return False
    return True


def _uuid_refused(problem: str, hint: str) -> InvalidError:
    return InvalidError("the activation", [Problem("UUID", problem, hint)])
