"""Rules for ``Config.Transparency``: who witnesses the log, and what waits for witnesses."""

import re
from typing import Final

from keyhouse.base.findings import Findings
from keyhouse.base.place import Place
from keyhouse.manifest.document import ConfigDocument
from keyhouse.manifest.model import Anchored, Serving, Transparency
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.policy import Policy
from keyhouse.wire.json_decoder import nearest

# How long, and for how many operations, a lease may be.
ALLOWED_SECONDS: Final = (60, 30 * 24 * 3600)
ALLOWED_OPERATIONS: Final = (1, 1_000_000_000)

ORIGIN: Final = re.compile(r"[!-*,-~]{1,255}", re.ASCII)
"""Names of logs: what C2SP checkpoints, key names and lines of leaves all take."""

_HERE: Final[Place] = ("Config", "Transparency")


def check_transparency(config: ConfigDocument, findings: Findings) -> None:
    """Check the policy of witnesses, and that what waits for them can be cosigned."""
    given = config.transparency
    if given is None:
        return
    _check_origin(given.origin, findings)
    policy = _policy(given.witnesses, findings)
    _check_serve(given, policy, findings)
    _check_range("LeaseSeconds", given.lease_seconds, ALLOWED_SECONDS, findings)
    _check_range("LeaseOperations", given.lease_operations, ALLOWED_OPERATIONS, findings)
    for index, name in enumerate(given.anchor_before):
        if name not in {*Anchored}:
            place = (*_HERE, "AnchorBefore", index)
            findings.refuse(place, "is unknown", nearest(name, tuple(Anchored)))
    if given.anchor_before and policy is None:
        problem = "has no effect without witnesses"
        findings.warn((*_HERE, "AnchorBefore"), problem, "name them in Witnesses")


def _check_origin(origin: str, findings: Findings) -> None:
    here = (*_HERE, "Origin")
    if origin and not ORIGIN.fullmatch(origin):
        problem = "has a space, a plus, a character that is not ASCII, or more than 255 of them"
        findings.refuse(here, problem, "such as log.example.com/payments")
    elif "://" in origin:
        findings.warn(here, "has a scheme, which names of logs do not have", "remove it")


def _policy(text: str, findings: Findings) -> Policy | None:
    """Return the policy in ``text``; None if it needs no witness, or is refused."""
    here = (*_HERE, "Witnesses")
    if not text:
        return None
    try:
        policy = Policy.read(text)
        for each in policy.witnesses:
            each.require_url()
    except LogInvalidError as fault:
        hint = "check it with: keyhouse log policy check FILE"
        findings.refuse(here, f"is not a policy of witnesses: {fault.message}", hint)
        return None
    if policy.logs:
        findings.warn(here, "has log lines, which have no effect here", "remove them")
    if policy.quorum is None:
        findings.warn(here, "needs no witness: nobody outside has to agree", "define a quorum")
        return None
    return policy


def _check_serve(given: Transparency, policy: Policy | None, findings: Findings) -> None:
    here = (*_HERE, "Serve")
    if given.serve not in {"", *Serving}:
        findings.refuse(here, "is unknown", nearest(given.serve, tuple(Serving)))
    fork = "is a policy under which a fork needs no lying witness"
    if given.serve == Serving.WITNESSED and policy is None:
        findings.refuse(here, "is Witnessed, but no witness is needed", "name them in Witnesses")
    elif policy is not None and policy.liars_borne < 0:
        note = findings.refuse if given.serve == Serving.WITNESSED else findings.warn
        note((*_HERE, "Witnesses"), fork, "let the quorum be more than half of the witnesses")


def _check_range(name: str, value: int, allowed: tuple[int, int], findings: Findings) -> None:
    low, high = allowed
    if value and not low <= value <= high:
        findings.refuse((*_HERE, name), f"is {value}, must be {low} to {high}", "0: the default")
