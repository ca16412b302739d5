"""From options to a verified coordinator; commands have no other way to connect to one."""

from __future__ import annotations

import hmac
import ssl
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from keyhouse.base.durable_files import replace_file
from keyhouse.base.errors import BadRequestError, RefusedError
from keyhouse.base.named_files import read_file, writing_hint
from keyhouse.base.pem import certificate_pem
from keyhouse.base.printable import os_reason, printable
from keyhouse.cli.options.context_chosen import not_applied
from keyhouse.cli.options.memory import memory_of
from keyhouse.cli.options.pccs import from_pccs, vendor_root
from keyhouse.cli.options.target import Target, context_notice
from keyhouse.cli.output.files import FileUnwritableError, NewFile, reading
from keyhouse.cli.output.show import working
from keyhouse.cli.parser import WrongUsageError
from keyhouse.client.contexts import contexts_path
from keyhouse.client.pem_faults import certificate_fault
from keyhouse.wire.base64_text import decode_base64

if TYPE_CHECKING:
    from keyhouse.attestation import Collateral, ExpectedIdentity
    from keyhouse.cli.options.user import User
    from keyhouse.client import (
        CollateralFor,
        Coordinator,
        LogPolicy,
        StateMemory,
        Timeouts,
        TrustedCoordinator,
    )


def chain_pem(proven: TrustedCoordinator) -> str:
    """Return the intermediate certificate, then the root."""
    return certificate_pem(proven.intermediate_der, proven.root_der)


def unpinned(target: Target) -> Target:
    """Return ``target`` for a command that replaces the kept certificates: nothing to compare."""
    return msgspec.structs.replace(target, coordinator_cert="")


def keep(proven: TrustedCoordinator, path: str) -> str:
    """Replace the file at ``path`` (0600) by the certificates; return its path.

    "": ``keyhouse/coordinator-cert.pem`` in the user's directory for configuration. Raises
    ``FileUnwritableError``.
    """
    default = contexts_path()
    if not path and default is None:
        raise WrongUsageError("no place for the certificates", hint="--coordinator-cert FILE")
    place = Path(path) if path or default is None else default.with_name("coordinator-cert.pem")
    try:
        if not path:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(place, chain_pem(proven).encode("ascii"))
    except OSError as error:
        raise FileUnwritableError(
            f"cannot write {place}: {os_reason(error)}", hint=writing_hint(error)
        ) from None
    return str(place)


def require_kept(path: str, root_der: bytes) -> None:
    """Raise ``TrustError`` unless the last certificate at ``path`` is the root."""
    from keyhouse.client import TrustError

    content = read_file(path)
    last = content.decode("ascii", "replace").rstrip().rpartition("-----BEGIN CERT")[2]
    try:
        kept = ssl.PEM_cert_to_DER_cert(f"-----BEGIN CERT{last}")
    except ValueError:
        fault = certificate_fault(content)
        raise WrongUsageError(f"{path} {fault.problem}", hint=fault.hint) from None
    if not hmac.compare_digest(kept, root_der):
        raise TrustError(
            f"the coordinator has another root certificate than {path}",
            hint="send nothing: it is another deployment",
        )


_LONGEST_NONCE: Final = 1024  # bytes that a coordinator takes


def coordinator_of(target: Target, user: User | None = None) -> Coordinator:
    """Return a session with the coordinator, as ``user`` if there is one; to be closed.

    Raises what ``trusted`` raises, and what a user's identity does that cannot be used.
    """
    from keyhouse.client import Coordinator

    who = user.identity(target) if user is not None else None
    return Coordinator(trusted(target), who, timeout=target.timeouts())


def trusted(
    target: Target, *, known: bool = True, judged: bool = True, timeout: float | None = None
) -> TrustedCoordinator:
    """Return the coordinator after it proved who it is.

    ``known``: memory and ``--coordinator-cert`` have to agree that it is the same deployment as
    before, in no older state. False for a recovery, where the root is temporary. ``judged``:
    whether ``--accepted-manifests-only`` counts. ``timeout``: in seconds, instead of that of
    ``target``.
    Raises ``WrongUsageError``, ``TrustError``, ``UnreachableError``, and refusals of files that
    cannot be used.
    """
    found = target.settled()
    if not judged:
        found = msgspec.structs.replace(found, accepted_manifests_only=False)
    if sys.stderr.isatty():
        sys.stderr.write(_notice(target))
    proven = _verified(
        found, memory_of(found.memory) if known else None, timeout or found.timeouts()
    )
    if found.save_sgx_quote:
        NewFile(found.save_sgx_quote).write(proven.quote)
    if found.coordinator_cert and known:
        require_kept(found.coordinator_cert, proven.root_der)
    return proven


def _notice(target: Target) -> str:
    """Return a line on the context: which one applies, unless output is piped, or why none does."""
    why = not_applied(target.context, target.host)
    if why:
        return f"{printable(why)}\n"
    return context_notice(target) if sys.stdout.isatty() else ""


def _verified(
    found: Target, memory: StateMemory | None, timeout: float | Timeouts
) -> TrustedCoordinator:
    from keyhouse.client import (
        AnswerUnreadableError,
        CallRefusedError,
        TrustError,
        verify_coordinator,
    )
    from keyhouse.client.trust_files import first_manifest_of

    expected, root = expected_of(found), vendor_root(found.simulation_root)
    collateral = _collateral(found, root)
    try:
        with working(f"verifying {found.host}"):
            return verify_coordinator(
                found.host,
                expected=expected,
                root_ca_der=root,
                collateral=collateral,
                memory=memory,
                timeout=timeout,
                log_policy=log_policy_of(found),
                first_manifest=first_manifest_of(found.first_manifest),
                manifests="all" if found.accepted_manifests_only else "",
            )
    except (AnswerUnreadableError, CallRefusedError) as error:
        # What answers at this address has not proven to be the coordinator.
        raise TrustError(
            f"the coordinator is not trusted: it gave no quote: {error.message}",
            hint="do not use it: it may be another machine that answers at this address",
        ) from error


def log_policy_of(target: Target) -> LogPolicy | None:
    """Return what ``--witness-policy`` demands. Raises ``WrongUsageError``."""
    from keyhouse.client.log_policy import LOG_MAX_AGE, LogPolicy

    if target.witness_policy is None:
        if target.log_max_age is not None:
            raise WrongUsageError.no_effect("--log-max-age", "use it with --witness-policy")
        return None
    return LogPolicy.from_file(target.witness_policy, target.log_max_age or LOG_MAX_AGE)


def expected_of(target: Target) -> ExpectedIdentity:
    """Return the identity of the attestation file; options replace its lists."""
    from keyhouse.client.trust_files import expected_identity

    statuses = _listed("--accepted-tcb-statuses", target.accepted_tcb_statuses)
    advisories = _listed("--accepted-advisories", target.accepted_advisories)
    with reading(str(target.attestation)) as content:
        found = expected_identity(content, statuses, advisories)
    return msgspec.structs.replace(found, nonce=_nonce(target.nonce)) if target.nonce else found


def _listed(option: str, given: list[str]) -> list[str]:
    """Return the values of an option that may be repeated, and hold several between commas.

    Raises ``WrongUsageError`` if it is given without a value: the attestation file may accept more
    than was meant.
    """
    found = [each.strip() for text in given for each in text.split(",") if each.strip()]
    if given and not found:
        raise WrongUsageError(
            f"{option} is empty", hint="leave it out for what the attestation file accepts"
        )
    return found


def _nonce(text: str) -> bytes:
    try:
        standard = text.replace("-", "+").replace("_", "/")
        nonce = decode_base64(standard, maximum=_LONGEST_NONCE)
    except BadRequestError:
        nonce = b""
    if not nonce:
        raise RefusedError(
            f"--nonce is not 1 to {_LONGEST_NONCE} bytes in base64",
            hint="such as $(openssl rand -base64 32)",
        )
    return nonce


def collateral_for(target: Target, quote: bytes) -> Collateral:
    """Return what verifies ``quote``, by the options of ``target``. Raises as ``trusted`` does."""
    from keyhouse.attestation import Collateral

    found = target.settled()
    given = _collateral(found, vendor_root(found.simulation_root))
    return given if isinstance(given, Collateral) else given(quote)


def _collateral(target: Target, root_ca: bytes) -> Collateral | CollateralFor:
    from keyhouse.attestation import read_collateral
    from keyhouse.client.trust_files import bundle_file

    file = bundle_file(target.collateral, target.simulation_root, target.pccs)
    if file is None:
        return from_pccs(target.pccs, target.pccs_ca, root_ca)
    if target.pccs_ca is not None:
        raise WrongUsageError.no_effect("--pccs-ca", "use it with --pccs")
    with reading(str(file)) as content:
        return read_collateral(content)
