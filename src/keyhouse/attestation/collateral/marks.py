"""Marks: the age of each part of the collateral, so that older parts are refused later.

Otherwise a host could rewind the clock and present old collateral, in which a vulnerable platform
still counts as up to date. These parts have a mark: TCB info (for each kind of platform), QE
identity (for each TEE), and the revocation lists of the root, of each PCK CA and of each AMD root.
TCB info and QE identity are documents; a document is older if its evaluation number is lower.
Documents with equal numbers have equal content, even if a service signs them again. A list is older
if its number is lower or its date is earlier, because Intel's lists keep the same number for years.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from keyhouse.attestation.collateral.bundle import Collateral
from keyhouse.attestation.collateral.facts import CollateralFacts, read_facts
from keyhouse.attestation.errors import CollateralRefusedError, CollateralUnavailableError
from keyhouse.attestation.quote.report import Freshness

OF_PLATFORM: Final = "tcb-info/"
"""The prefix of mark names with an entry for each kind of platform."""

_LISTS: Final = ("root-crl", "pck-crl/", "amd-crl/")
_LARGEST: Final = 2**63 - 1  # numbers in journals are signed 64-bit integers
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Mark(msgspec.Struct, frozen=True):
    """The age of a part of collateral. Stored in journals: add fields, never rename."""

    number: int  # evaluation number, or number of the list; at most 2**63 - 1
    issued: int  # microseconds since 1970, UTC


def marks_of(facts: CollateralFacts) -> dict[str, Mark]:
    """Return the marks of collateral by part: ``tcb-info/sgx/00a067110000``, ``root-crl``..."""
    kind = facts.kind
    return {
        f"{OF_PLATFORM}{kind.tee}/{kind.fmspc}": _mark(
            facts.evaluation_number, facts.tcb_info_issued
        ),
        f"qe-identity/{kind.tee}": _mark(facts.evaluation_number, facts.qe_identity_issued),
        "root-crl": _mark(facts.root_crl_number, facts.root_crl_issued),
        f"pck-crl/{kind.ca}": _mark(facts.pck_crl_number, facts.pck_crl_issued),
    }


def marks_of_bundle(collateral: Collateral) -> dict[str, Mark]:
    """Return the marks of ``collateral``, a bundle that has served to verify a quote.

    Raises ``CollateralUnavailableError`` for an unreadable bundle, because the quote is not at
    fault.
    """
    try:
        return marks_of(read_facts(collateral))
    except CollateralRefusedError as refused:
        raise CollateralUnavailableError(refused.message, hint=refused.hint) from None


def marks_of_amd_list(product: str, freshness: Freshness) -> dict[str, Mark]:
    """Return the mark of AMD's revocation list for the line of processors ``product``.

    ``freshness``: from the verdict of a report.
    """
    return {f"amd-crl/{product}": _mark(freshness.root_crl_number, freshness.issued)}


def require_as_new(found: Mapping[str, Mark], known: Mapping[str, Mark]) -> None:
    """Raise ``CollateralUnavailableError`` if a part of ``found`` is older than in ``known``.

    Both map the names of parts to marks, as ``marks_of`` returns them.
    """
    for name, mark in found.items():
        before = known.get(name)
        if before is not None and _is_newer(name, before, mark):
            raise CollateralUnavailableError(
                f"the collateral is older than earlier collateral: {name} has {_shown(mark)},"
                f" expected {_shown(before)} or newer",
                hint="let the PCCS refresh its own cache, or fetch the bundle again",
            )


def is_as_new(found: Mapping[str, Mark], known: Mapping[str, Mark]) -> bool:
    """Return whether no part of ``found`` is older than in ``known``.

    Both are as in ``require_as_new``.
    """
    return not any(name in known and _is_newer(name, known[name], found[name]) for name in found)


def newer_marks(found: Mapping[str, Mark], known: Mapping[str, Mark]) -> dict[str, Mark]:
    """Return new marks for the parts of ``found`` that are newer than in ``known``.

    A new mark has the larger number and the later date of both marks. A part that ``known`` lacks
    also counts as newer.
    """
    newer: dict[str, Mark] = {}
    for name, mark in found.items():
        before = known.get(name)
        if before is None:
            newer[name] = mark
        elif _is_newer(name, mark, before):
            newer[name] = Mark(max(mark.number, before.number), max(mark.issued, before.issued))
    return newer


def _is_newer(name: str, mark: Mark, other: Mark) -> bool:
    later = name.startswith(_LISTS) and mark.issued > other.issued
    return mark.number > other.number or later


def _mark(number: int, issued: datetime) -> Mark:
    microseconds = (issued - _EPOCH) // timedelta(microseconds=1)
    return Mark(min(number, _LARGEST), microseconds)


def _shown(mark: Mark) -> str:
    issued = datetime.fromtimestamp(mark.issued // 1_000_000, UTC)
    return f"number {mark.number} of {issued:%Y-%m-%dT%H:%M:%SZ}"
