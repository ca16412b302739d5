"""Checks over the network: the coordinator after its verification, a database, and the PCCS."""

import asyncio
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final

import msgspec
from cryptography import x509

from keyhouse.base.errors import KeyhouseError
from keyhouse.base.version import VERSION
from keyhouse.cli.doctor.finding import CheckResult, check_clock, check_expiry, check_start, failed
from keyhouse.cli.options.pccs import ca_of
from keyhouse.cli.options.target import Target
from keyhouse.cli.protection import RUNNING, Protection, protection_of
from keyhouse.cli.store.database import connected
from keyhouse.journal.shared import TRUSTED_FOR_FRESHNESS, kept_on

_PATIENCE: Final = 10.0  # seconds for each answer, chosen: people wait for the report
_QE_IDENTITY: Final = "sgx/certification/v4/qe/identity"


def coordinator_findings(target: Target, now: datetime) -> Iterator[CheckResult]:
    """Yield the findings about the coordinator of ``target``, after its verification.

    A coordinator that does not verify receives no further request. ``now`` is compared with the
    validity of certificates.
    """
    from keyhouse.cli.options.connect import verify_target
    from keyhouse.client import Coordinator

    try:
        proven = verify_target(target, timeout=None if target.timeout else _PATIENCE)
        with Coordinator(proven, timeout=target.timeouts()) as coordinator:
            status, described = coordinator.status(), coordinator.openapi()
            protection = protection_of(coordinator, status)
    except KeyhouseError as error:
        yield failed("coordinator", error)
        return
    verdict = proven.verdict
    simulated = " of a SIMULATED machine" if target.simulation_root is not None else ""
    yield CheckResult("coordinator", "ok", f"verified; TCB {verdict.tcb_status}{simulated}")
    yield check_state(status.code, status.message)
    yield from _protection(protection)
    yield _version(described)
    for check, der in (
        ("root certificate", proven.root_der),
        ("intermediate certificate", proven.intermediate_der),
    ):
        certificate = x509.load_der_x509_certificate(der)
        early = check_start(check, certificate.not_valid_before_utc, now)
        fix = "set up a new deployment before that date"
        yield early or check_expiry(check, certificate.not_valid_after_utc, now, fix)


def _protection(protection: Protection) -> Iterator[CheckResult]:
    """Yield the findings in ``protection``: rollbacks, cosignatures of witnesses, and the lease."""
    from keyhouse.views.witnesses import cosigned_in_words, lease_in_words, seen_in_words

    if protection.note:
        fix = "add witnesses to the manifest, with Serve Witnessed"
        yield CheckResult("rollback", "warning", protection.note, fix)
    witnesses = protection.witnesses
    if witnesses is None:
        return
    fix = "see the process log of the coordinator: the log names each failing witness"
    missing = any(each.time is None for each in witnesses.cosignatures)
    yield CheckResult(
        "witnesses",
        "warning" if missing else "ok",
        cosigned_in_words(witnesses),
        fix if missing else "",
    )
    if witnesses.last is not None:
        yield CheckResult("last cosignature", "ok", seen_in_words(witnesses.last))
    if witnesses.lease is not None:
        is_short = witnesses.is_short
        rest = lease_in_words(witnesses, witnesses.lease)
        yield CheckResult("lease", "warning" if is_short else "ok", rest, fix if is_short else "")


def pccs_findings(url: str, pccs_ca: Path | None, now: datetime) -> Iterator[CheckResult]:
    """Yield the findings about the answer of the PCCS at ``url``, and about its clock.

    ``pccs_ca``: the file with the accepted CA (PEM), or None for the system's CAs. ``now``: the
    time of this machine.
    """
    import httpx

    from keyhouse.attestation.collateral.pccs import Pccs
    from keyhouse.base.services import tls_context

    try:
        Pccs(url, ca_of(pccs_ca))  # refuses unusable addresses and CAs
        context = tls_context(ca_of(pccs_ca))
        with (
            httpx.Client(verify=context, trust_env=False, timeout=_PATIENCE) as client,
            client.stream("GET", f"{url.rstrip('/')}/{_QE_IDENTITY}") as answer,
        ):
            code, date = answer.status_code, answer.headers.get("date", "")
    except KeyhouseError as error:
        yield failed("PCCS", error)
        return
    except (httpx.HTTPError, ssl.SSLError, OSError):
        fix = "check that the PCCS runs; check its address, its CA (--pccs-ca) and the network"
        yield CheckResult("PCCS", "problem", "no answer over trusted TLS", fix)
        return
    if code != httpx.codes.OK:
        fix = "check that the address is a PCCS, and see the log of the PCCS"
        yield CheckResult("PCCS", "problem", f"answers HTTP status {code}", fix)
    else:
        yield CheckResult("PCCS", "ok", "answers")
    yield _clock_by(date, now)


def _clock_by(date: str, now: datetime) -> CheckResult:
    try:
        stated = parsedate_to_datetime(date)
    except ValueError:
        return CheckResult("clock", "skipped", "the PCCS did not state its time")
    theirs = stated if stated.tzinfo else stated.replace(tzinfo=UTC)
    return check_clock("clock", now, theirs, "the PCCS")


def check_state(code: int, message: str) -> CheckResult:
    """Return the result about a coordinator's status.

    ``code`` is the number of its phase, and ``message`` the text of the status.
    """
    if code == RUNNING and not message.startswith("held: "):
        return CheckResult("state", "ok", f"{code}  {message}")
    if code == RUNNING:
        fix = "check that this is the newest state, and that the coordinator reaches the witnesses"
        return CheckResult("state", "warning", f"{code}  {message}", fix)
    fix = "keyhouse recover" if code == 1 else "keyhouse manifest set"
    return CheckResult("state", "warning", f"{code}  {message}", fix)


def _version(described: bytes) -> CheckResult:
    try:
        theirs = str(msgspec.json.decode(described)["info"]["version"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return CheckResult("its version", "skipped", "not stated by the coordinator")
    if theirs == VERSION:
        return CheckResult("its version", "ok", f"{theirs}, as here")
    fix = "use the same version on both sides, if possible"
    return CheckResult("its version", "warning", f"{theirs}; this machine has {VERSION}", fix)


def database_findings(url: str, password_file: Path | None, needed: int) -> Iterator[CheckResult]:
    """Yield the findings about the database at ``url``. The checks do not change the database.

    ``password_file``: the file with its password, or None. ``needed``: the number of standbys that
    must store each change.
    """

    async def read_database() -> tuple[bytes | None, int]:
        async with connected(url, password_file, needed) as database:
            return await database.current(), await database.standbys()

    try:
        current, standbys = asyncio.run(read_database())
    except KeyhouseError as error:
        yield failed("database", error)
        return
    holds = "no store yet" if current is None else f"the store {current.hex()}"
    yield CheckResult("database", "ok", f"answers, and contains {holds}")
    yield CheckResult("database", "ok", TRUSTED_FOR_FRESHNESS)
    if standbys:
        yield CheckResult("standby", "ok", kept_on(standbys))
    else:
        fix = "set synchronous_standby_names in the configuration of the server"
        danger = "commits wait for no standby: a failover may lose the newest changes"
        yield CheckResult("standby", "warning", danger, fix)
