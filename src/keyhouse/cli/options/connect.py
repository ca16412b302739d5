"""Verify the coordinator that the options name, then connect.

Commands have no other way to connect. So no command can send data to a coordinator that has not
proven its identity.
"""

from __future__ import annotations

import hmac
import ssl
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from keyhouse.base.durable_files import replace_file
from keyhouse.base.errors import BadRequestError, RefusedError
from keyhouse.base.pem import certificate_pem
from keyhouse.base.printable import os_reason, printable
from keyhouse.base.user_files import read_file, writing_hint
from keyhouse.cli.options.context_option import not_applied
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
    from keyhouse.cli.options.user import UserOption
    from keyhouse.client import (
        CollateralFor,
        Coordinator,
        LogPolicy,
        StateMemory,
        Timeouts,
        TrustedCoordinator,
    )


def chain_pem(proven: TrustedCoordinator) -> str:
    """Return the certificates of the verified coordinator ``proven``, PEM: intermediate, root."""
    return certificate_pem(proven.intermediate_der, proven.root_der)


def without_stored_root(target: Target) -> Target:
    """Return ``target`` without the file of ``--coordinator-cert``, the stored certificates.

    A command that replaces this file must not compare the coordinator's root with the old file.
    """
    return msgspec.structs.replace(target, coordinator_cert="")


def store_certificates(proven: TrustedCoordinator, path: str) -> str:
    """Replace the file ``path`` (0600) by the certificates of ``proven``; return the file's path.

    ``proven`` is the verified coordinator. If ``path`` is "", the file is
    ``keyhouse/coordinator-cert.pem`` in the user's directory for configuration. Raises
    ``FileUnwritableError``, and ``WrongUsageError`` without such a directory.
    """
    default = contexts_path()
    if not path and default is None:
        raise WrongUsageError(
            "the command has no folder to store the certificates",
            hint="pass --coordinator-cert FILE, or set XDG_CONFIG_HOME or HOME to a directory",
        )
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


def require_stored_root(path: str, root_der: bytes) -> None:
    """Raise ``TrustError`` unless the last certificate in the file ``path`` is ``root_der``.

    ``root_der`` is the coordinator's root. Raises ``WrongUsageError`` for a file without a valid
    certificate at its end.
    """
    from keyhouse.client import TrustError

    content = read_file(path)
    last = content.decode("ascii", "replace").rstrip().rpartition("-----BEGIN CERT")[2]
    try:
        stored = ssl.PEM_cert_to_DER_cert(f"-----BEGIN CERT{last}")
    except ValueError:
        fault = certificate_fault(content)
        raise WrongUsageError(f"{path} {fault.problem}", hint=fault.hint) from None
    if not hmac.compare_digest(stored, root_der):
        raise TrustError(
            f"the coordinator's root certificate differs from the root in {path}",
            hint="send nothing: the coordinator belongs to another deployment",
        )


_LONGEST_NONCE: Final = 1024  # bytes; coordinators refuse a longer nonce


def coordinator_of(target: Target, user: UserOption | None = None) -> Coordinator:
    """Verify the coordinator of ``target``; return a session, which the caller closes.

    The client is ``user``; None: anonymous. Raises the errors of ``verify_target`` and of
    ``UserOption.identity``.
    """
    from keyhouse.client import Coordinator

    who = user.identity(target) if user is not None else None
    return Coordinator(verify_target(target), who, timeout=target.timeouts())


def verify_target(
    target: Target, *, known: bool = True, accepted_only: bool = True, timeout: float | None = None
) -> TrustedCoordinator:
    """Verify the coordinator of ``target``, and return the verified coordinator.

    With ``known``, the function also compares the deployment and its state with the memory, and
    the root with the file of ``--coordinator-cert``. A recovery passes False, because the
    coordinator then has a temporary root. Without ``accepted_only``, the option
    ``--accepted-manifests-only`` has no effect. ``timeout``, in seconds, replaces the timeouts of
    ``target``.

    Raises ``WrongUsageError``, ``TrustError``, ``UnreachableError``, and refusals of unusable
    files.
    """
    resolved = target.resolve()
    if not accepted_only:
        resolved = msgspec.structs.replace(resolved, accepted_manifests_only=False)
    if sys.stderr.isatty():
        sys.stderr.write(_notice(target))
    proven = _verify(
        resolved, memory_of(resolved.memory) if known else None, timeout or resolved.timeouts()
    )
    if resolved.save_sgx_quote:
        NewFile(resolved.save_sgx_quote).write(proven.quote)
    if resolved.coordinator_cert and known:
        require_stored_root(resolved.coordinator_cert, proven.root_der)
    return proven


def _notice(target: Target) -> str:
    """Return a line for the user about the context of the command, or "".

    If the context in use is not for the host of ``target``, the line states that the context does
    not apply. Otherwise, the line names the context, but only if standard output is a terminal.
    """
    why = not_applied(target.context, target.host)
    if why:
        return f"{printable(why)}\n"
    return context_notice(target) if sys.stdout.isatty() else ""


def _verify(
    target: Target, memory: StateMemory | None, timeout: float | Timeouts
) -> TrustedCoordinator:
    from keyhouse.client import (
        AnswerUnreadableError,
        CallRefusedError,
        TrustError,
        verify_coordinator,
    )
    from keyhouse.client.trust_files import first_manifest_of

    expected, root = expected_of(target), vendor_root(target.simulation_root)
    collateral = _collateral(target, root)
    try:
        with working(f"verifying {target.host}"):
            return verify_coordinator(
                target.host,
                expected=expected,
                root_ca_der=root,
                collateral=collateral,
                memory=memory,
                timeout=timeout,
                log_policy=log_policy_of(target),
                first_manifest=first_manifest_of(target.first_manifest),
                manifests="all" if target.accepted_manifests_only else "",
            )
    except (AnswerUnreadableError, CallRefusedError) as error:
        # The machine at this address has not proven to be the coordinator.
        raise TrustError(
            f"the coordinator is not trusted, because its answer has no quote: {error.message}",
            hint="do not use this address: another machine may answer there",
        ) from error


def log_policy_of(target: Target) -> LogPolicy | None:
    """Return the requirements for cosignatures of the log, or None without ``--witness-policy``.

    Raises ``WrongUsageError``.
    """
    from keyhouse.client.log_policy import LOG_MAX_AGE, LogPolicy

    if target.witness_policy is None:
        if target.log_max_age is not None:
            raise WrongUsageError.no_effect("--log-max-age", "use it with --witness-policy")
        return None
    return LogPolicy.from_file(target.witness_policy, target.log_max_age or LOG_MAX_AGE)


def expected_of(target: Target) -> ExpectedIdentity:
    """Return the identity in the attestation file of ``target``.

    Options replace its accepted TCB statuses, its accepted advisories and its nonce.
    """
    from keyhouse.client.trust_files import expected_identity

    statuses = _split_list("--accepted-tcb-statuses", target.accepted_tcb_statuses)
    advisories = _split_list("--accepted-advisories", target.accepted_advisories)
    with reading(str(target.attestation)) as content:
        identity = expected_identity(content, statuses, advisories)
    return (
        msgspec.structs.replace(identity, nonce=_nonce(target.nonce)) if target.nonce else identity
    )


def _split_list(option: str, texts: list[str]) -> list[str]:
    """Return the values in ``texts``, the arguments of ``option``, with commas between values.

    Raises ``WrongUsageError`` if all arguments are empty. Otherwise, the list in the attestation
    file would apply, and could accept more than the user intended.
    """
    items = [each.strip() for text in texts for each in text.split(",") if each.strip()]
    if texts and not items:
        raise WrongUsageError(
            f"{option} is empty",
            hint="pass a value, or omit the option to use the list in the attestation file",
        )
    return items


def _nonce(text: str) -> bytes:
    try:
        standard = text.replace("-", "+").replace("_", "/")
        nonce = decode_base64(standard, maximum=_LONGEST_NONCE)
    except BadRequestError:
        nonce = b""
    if not nonce:
        raise RefusedError(
            f"--nonce is not 1 to {_LONGEST_NONCE} bytes in base64",
            hint="pass random bytes: --nonce $(openssl rand -base64 32)",
        )
    return nonce


def collateral_for(target: Target, quote: bytes) -> Collateral:
    """Return collateral for ``quote``, by the options of ``target``.

    Raises the errors of ``verify_target``.
    """
    from keyhouse.attestation import Collateral

    resolved = target.resolve()
    collateral = _collateral(resolved, vendor_root(resolved.simulation_root))
    return collateral if isinstance(collateral, Collateral) else collateral(quote)


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
