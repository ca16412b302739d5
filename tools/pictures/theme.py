"""The colours and fonts of all pictures, for light and dark pages.

Meanings of the kinds: ``plain`` neutral; ``blue`` trusted, inside an enclave; ``violet`` keys and
secrets; ``green`` checked; ``amber`` untrusted or waiting; ``red`` refused.
"""

from typing import Final

__all__ = ["STYLE"]

_COLOURS: Final = {  # kind: fill, line, text; light, then dark
    "plain": (("#f6f8fa", "#8392a5", "#46566b"), ("#1e252f", "#738499", "#b3c0d1")),
    "blue": (("#e9f2fc", "#3b78b8", "#215a94"), ("#152a41", "#5b9ee0", "#94c4f2")),
    "violet": (("#f2edfb", "#7c5cbf", "#5f3fa3"), ("#2a2140", "#a58ae0", "#c9b6f2")),
    "green": (("#e8f6ee", "#2f8f5b", "#1d6f42"), ("#12301f", "#4dbb7f", "#8adcb0")),
    "amber": (("#fdf3e1", "#b7791f", "#8a5a10"), ("#35280f", "#d9a040", "#efc67c")),
    "red": (("#fdecec", "#c44545", "#a32c2c"), ("#3a1a1c", "#e47474", "#f3a5a5")),
}
_INK: Final = ("#1b2430", "#e8edf4")
_PAGE: Final = (("#ffffff", "#dde3ea"), ("#14181f", "#2b333f"))

_SANS: Final = "'Segoe UI',Roboto,'Helvetica Neue',Helvetica,Arial,'Liberation Sans',sans-serif"
_MONO: Final = "ui-monospace,SFMono-Regular,Menlo,Consolas,'Liberation Mono',monospace"

_SHAPES: Final = f"""
text{{font-family:{_SANS}}}
.name{{font-size:15px;font-weight:600}}.what{{font-size:13px}}.small{{font-size:12px}}
.note{{font-size:14px}}.tag{{font-size:12px;font-weight:600}}
.mono{{font-family:{_MONO};font-size:12.5px}}
.box,.pill{{stroke-width:1.4}}.area{{stroke-width:1.2;stroke-dasharray:5 4;fill-opacity:.45}}
.line{{fill:none;stroke-width:1.7}}.rule{{fill:none;stroke-width:1}}
.dash{{fill:none;stroke-width:1.4;stroke-dasharray:4 4}}
.icon{{fill:none;stroke-width:1.6;stroke-linecap:round;stroke-linejoin:round}}
.lane{{fill:none;stroke-width:1.4;stroke-dasharray:1 6;stroke-linecap:round;opacity:.6}}
.dot{{stroke-width:2}}.bar{{stroke:none}}
"""


def _theme(which: int) -> str:
    (page, border), ink = _PAGE[which], _INK[which]
    rules = f".page{{fill:{page};stroke:{border}}}.name{{fill:{ink}}}"
    rules += f".what,.small,.note,.tag{{fill:{_COLOURS['plain'][which][2]}}}.mono{{fill:{ink}}}"
    for kind, themes in _COLOURS.items():
        fill, line, text = themes[which]
        rules += (
            f".box.{kind},.pill.{kind},.area.{kind}{{fill:{fill};stroke:{line}}}"
            f".line.{kind},.rule.{kind},.dash.{kind},.lane.{kind},.icon.{kind}{{stroke:{line}}}"
            f".head.{kind},.bar.{kind}{{fill:{line}}}"
            f".dot.{kind}{{fill:{fill};stroke:{line}}}text.{kind}{{fill:{text}}}"
        )
    return rules


STYLE: Final = f"{_SHAPES}{_theme(0)}\n@media(prefers-color-scheme:dark){{{_theme(1)}}}\n"
