"""Checks of names that must be defined or known, with hints at the probable name."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from keyhouse.base.errors import Findings
from keyhouse.base.printable import Place, quoted
from keyhouse.wire.json_decoder import resembling

SPELLING: Final = "use this spelling, because some programs compare upper and lower case"

_MOST_HINTS: Final = 10  # problems; later problems have no hint
_MOST_NAMES: Final = 500
"""Maximum of compared names. Bounds the work for a hostile manifest to some 0.1 s."""


def refuse_undefined(
    findings: Findings, place: Place, what: str, name: str, section: str, defined: Iterable[str]
) -> None:
    """Add the problem that ``name``, used at ``place``, is not among ``defined``.

    ``section`` is the section of the manifest with the names ``defined``. ``what`` precedes the
    name in the text, such as "the role ".
    """
    problem = f"names {what}{quoted(name)}, which is not in {section}"
    findings.refuse(place, problem, meant_by(name, defined, findings) or f"define it in {section}")


def meant_by(name: str, defined: Iterable[str], findings: Findings) -> str:
    """Return a hint at the name in ``defined`` that is most similar to ``name``.

    "": no name is similar, or ``findings`` has so many problems that hints would take long.
    """
    if len(findings.problems) >= _MOST_HINTS:
        return ""
    close = resembling(name, islice(defined, _MOST_NAMES))
    return f"did you mean {quoted(close)}?" if close else ""


def unknown(word: str) -> str:
    """Return the problem of an unknown or missing ``word``, such as an action of a role."""
    return f"is {quoted(word)}, which is unknown" if word else "is missing"
