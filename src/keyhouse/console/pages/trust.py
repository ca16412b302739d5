"""The page Trust: the proofs of the coordinator, their time, and the expected values."""

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from cryptography import x509
from starlette.requests import Request
from starlette.responses import Response

from keyhouse.attestation import ExpectedIdentity, TcbStatus, Verdict
from keyhouse.base.secret import Secret
from keyhouse.client import CallRefusedError, LogCheckpoint, LogPolicy
from keyhouse.client.errors import CallUnknownError
from keyhouse.console.deployments import ConsoleDeployment, Link, root_fingerprint
from keyhouse.console.page import SECTIONS, TemplateView, fields_of, page, redirect, rendered
from keyhouse.transparency.keys import VerifierKey
from keyhouse.transparency.note import SignedNote
from keyhouse.views.measurements import bits_in_words
from keyhouse.views.witnesses import witness_rows, witnesses_on
from keyhouse.wire.client_api import Status

_RUNNING: Final = 3  # the number of the phase in the Client API
# A proof that is older makes the page verify again.
_AGE: Final = timedelta(minutes=5)
_WORDS: Final = {
    TcbStatus.UP_TO_DATE: "The platform has every update that its vendor knows of.",
    TcbStatus.SW_HARDENING_NEEDED: "The platform is up to date; software has to work around known"
    " weaknesses, which the advisories name.",
    TcbStatus.CONFIGURATION_NEEDED: "The platform is up to date, but a setting of its firmware"
    " weakens it.",
    TcbStatus.CONFIGURATION_AND_SW_HARDENING_NEEDED: "A setting of the firmware weakens the"
    " platform, and software has to work around known weaknesses.",
    TcbStatus.OUT_OF_DATE: "Updates of the platform's firmware are missing.",
    TcbStatus.OUT_OF_DATE_CONFIGURATION_NEEDED: "Updates of the platform's firmware are missing,"
    " and a setting weakens it.",
}


class MeasuredField(msgspec.Struct, frozen=True):
    """A measurement in the quote, and its expected value. ``words`` names the set bits, or ""."""

    name: str
    value: str
    expected: str
    words: str = ""


class ShownHead(msgspec.Struct, frozen=True):
    """The newest head of the transparency log.

    ``seen`` is the time of the cosignatures by a quorum of witnesses, or None without a quorum.
    """

    origin: str
    size: int
    root: str
    seen: datetime | None = None
    # A name of a witness, and whether the witness has cosigned.
    witnesses: tuple[tuple[str, bool], ...] = ()
    # The witnesses and the lease of the manifest, in words.
    demanded: dict[str, str] = {}
    # Whether the lease is short, because witnesses did not renew it in time.
    is_short: bool = False


@page("trust")
async def show(request: Request, deployment: ConsoleDeployment) -> TemplateView:
    """Show the coordinator's proofs; verify the coordinator again if they are some minutes old."""
    del request
    verified = deployment.verified
    if verified is not None and datetime.now(UTC) - verified > _AGE:
        await deployment.verify_again()
    link = await deployment.link()
    status = await link.coordinator.status()
    trusted, trust = link.coordinator.trusted, link.described.trust
    memory = link.described.memory
    root = root_fingerprint(link)
    values = {
        "status": status,
        "verdict": trusted.verdict,
        "tcb": _tcb(trusted.verdict),
        "measured": _measured(trusted.verdict, trust.expected),
        "accepted": _accepted(trust.expected),
        "root": root,
        "chain": [_certificate(der) for der in (trusted.intermediate_der, trusted.root_der)],
        "remembered": None if memory is None else memory.read().highest(root),
        "has_memory": memory is not None,
        "log": await _log(deployment, link, status),
        "user": await _user(deployment, link, status.code),
    }
    return TemplateView("trust", values)


def _witnesses(policy: LogPolicy, checkpoint: LogCheckpoint) -> tuple[tuple[str, bool], ...]:
    note, key = SignedNote.read(checkpoint.note), VerifierKey.read(checkpoint.verifier)
    signed = policy.witnesses.require(note, key)
    return tuple((each.name, each.key in signed) for each in policy.witnesses.witnesses)


async def _user(deployment: ConsoleDeployment, link: Link, phase: int) -> str:
    """Return the name of the user of the session ``link`` in the manifest in force.

    "" means no user or no manifest. ``phase``: the number of the coordinator's phase.
    """
    if not link.certificate or phase != _RUNNING:
        return ""
    return (await deployment.in_force()).user


async def _log(deployment: ConsoleDeployment, link: Link, status: Status) -> ShownHead | None:
    """Return the newest head of the log; None without a manifest in force, or without a log.

    ``link`` is the session, and ``status`` the coordinator's status. The session checks that the
    log continues the remembered log. Raises ``TrustError`` if it does not, or if a required quorum
    of witnesses is missing.
    """
    if status.code != _RUNNING:
        return None
    policy = link.described.trust.log_policy
    try:
        found = await link.coordinator.witnessed_checkpoint()
    # The coordinator is of a version without a log.
    except CallUnknownError:
        return None
    except CallRefusedError as refusal:
        # An older version began this deployment, so it has no log.
        if refusal.reason == "not-found":
            return None
        raise
    named = witnesses_on(found, (await deployment.in_force()).manifest, status.lease)
    log = ShownHead(
        found.origin,
        found.size,
        found.root.hex(),
        demanded={} if named is None else witness_rows(named),
        is_short=named is not None and named.is_short,
    )
    if policy is None:
        return log
    seen = policy.require(found, datetime.now(UTC))
    return msgspec.structs.replace(log, seen=seen, witnesses=_witnesses(policy, found))


@page("trust")
async def verify(request: Request, deployment: ConsoleDeployment) -> Response:
    """Verify the coordinator again, with a fresh nonce, and show the page."""
    del request
    await deployment.verify_again()
    return redirect(deployment, "trust")


@page("trust")
async def unlock(request: Request, deployment: ConsoleDeployment) -> Response:
    """Use the password of the form for the user's key, and show the page Trust."""
    password = fields_of(request).get("password", "")
    await deployment.unlock(Secret(password.encode()))
    return redirect(deployment, "trust")


def _tcb(verdict: Verdict) -> str:
    if verdict.tcb_status is None:
        return "AMD states no status: the versions of the platform are below."
    return _WORDS.get(verdict.tcb_status, "")


def _measured(verdict: Verdict, expected: ExpectedIdentity) -> list[MeasuredField]:
    if verdict.vm is not None:
        wanted = msgspec.to_builtins(expected.vm) if expected.vm is not None else {}
        return [
            MeasuredField(
                name, str(value), str(wanted.get(name, "")), bits_in_words(name, str(value))
            )
            for name, value in msgspec.to_builtins(verdict.vm).items()
        ]
    return [
        MeasuredField("UniqueID", verdict.mrenclave.hex(), expected.unique_id.hex()),
        MeasuredField("SignerID", verdict.mrsigner.hex(), expected.signer_id.hex()),
        MeasuredField("ProductID", str(verdict.isvprodid), _number(expected.product_id)),
        MeasuredField(
            "SecurityVersion",
            str(verdict.isvsvn),
            f"{expected.security_version} or newer" if expected.security_version else "",
        ),
    ]


def _number(value: int) -> str:
    return str(value) if value else ""


def _accepted(expected: ExpectedIdentity) -> str:
    return ", ".join((*expected.accepted_tcb_statuses, *expected.accepted_advisories))


def _certificate(der: bytes) -> dict[str, object]:
    found = x509.load_der_x509_certificate(der)
    return {
        "subject": found.subject.rfc4514_string(),
        "begins": found.not_valid_before_utc,
        "ends": found.not_valid_after_utc,
        "serial": f"{found.serial_number:x}",
    }


@page("")  # without a section: the query names the section
async def news(request: Request, deployment: ConsoleDeployment) -> Response:
    """Return the present header and menu in an empty page, for the script of an open page.

    The console sends no request to the coordinator: the poll for the streams has already found the
    changes.
    """
    section = request.query_params.get("section", "")
    return rendered(
        request, section if section in SECTIONS else "", deployment, TemplateView("base")
    )
