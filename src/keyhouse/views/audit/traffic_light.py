"""The traffic light of the page: the verification's result as a colour, a word and a sentence.

Only a file without gaps, from real hardware, is green. If the auditor allows a gap, the page shows
this decision in amber.
"""

from typing import Final, NamedTuple

from keyhouse.evidence.verify import Outcome, Verified


class Light(NamedTuple):
    """The traffic light with its texts. ``colour`` is a class of the style sheet.

    ``sign`` is a character with the same meaning, for readers without colours.
    """

    colour: str
    sign: str
    headline: str
    sentence: str


_SHOWN: Final = Light(
    "grey",
    "?",
    "Not verified",
    "This page shows the content of the file. Anybody can make such a file. The command keyhouse"
    " evidence verify verifies it.",
)
_PROVEN: Final = Light(
    "green",
    "✓",
    "Proven without gaps",
    "Every check was made and holds. The sections below say what no evidence file can prove.",
)


def light_of(verified: Verified) -> Light:
    """Return the traffic light of the audit report for the verification ``verified``."""
    light = _light_of(verified)
    if not verified.is_simulated:
        return light
    is_green = light.colour == "green"
    return Light(
        "amber" if is_green else light.colour,
        "!" if is_green else light.sign,
        f"Simulation. {light.headline}",
        f"{_SIMULATED} {light.sentence}",
    )


def _light_of(verified: Verified) -> Light:
    """Return the traffic light for the outcome of ``verified``.

    The caller changes the light for a simulated platform.
    """
    gaps, refused = len(verified.every_gap), len(verified.not_allowed)
    match verified.outcome:
        case Outcome.NOT_VERIFIED:
            return _SHOWN
        case Outcome.GAPS:
            return Light(
                "red",
                "✕",
                f"Not proven: {_counted(refused, 'gap')} that the auditor does not allow",
                "Some checks could not be made. What was checked holds. The gaps are listed below,"
                " and beside each entry.",
            )
        case Outcome.EXCEPT_ALLOWED:
            return Light(
                "amber",
                "!",
                f"Proven, except for {_counted(gaps, 'gap')} that the auditor allows",
                "Some checks could not be made, and the auditor accepts this. All other checks"
                " hold. The gaps are listed below, and beside each entry.",
            )
        case _:
            return _PROVEN


_SIMULATED: Final = "The hardware is simulated, so this page proves nothing about hardware or code."


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
