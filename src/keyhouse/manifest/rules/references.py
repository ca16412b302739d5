"""Checks of names that must be defined or known, with hints at the probable name."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from keyhouse.base.findings import Findings
from keyhouse.base.printable import Place, quoted
from keyhouse.wire.json_decoder import resembling

SPELLING: Final = "write it so: other programs may not know it in other letters"

_MOST_HINTS: Final = 10  # problems; later problems have no hint
_MOST_NAMES: Final = 500
"""Maximum of compared names. Bounds the work for a hostile manifest to some 0.1 s."""


def refuse_undefined(
    findings: Findings, place: Place, what: str, name: str, section: str, defined: Iterable[str]
) -> None:
    """Add the problem that ``name``, of the kind ``what``, is not in ``section`` (``defined``)."""
    problem = f"names {what}{quoted(name)}, which is not in {section}"
    findings.refuse(place, problem, meant_by(name, defined, findings) or "define it there")


def meant_by(name: str, defined: Iterable[str], findings: Findings) -> str:
    """Return a hint at the most similar name; "" if there is none, or after many problems."""
    if len(findings.problems) >= _MOST_HINTS:
        return ""
    close = resembling(name, islice(defined, _MOST_NAMES))
    return f"did you mean {quoted(close)}?" if close else ""


def unknown(word: str) -> str:
    """Return the problem of a manifest's ``word`` that is not in the list of known words."""
    return f"is {quoted(word)}, which is unknown" if word else "is missing"
