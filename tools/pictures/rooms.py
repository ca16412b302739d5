"""The rooms of ``src/keyhouse`` in the layers of the import-linter contract."""

import tomllib
from pathlib import Path
from typing import Final

from pictures.canvas import Canvas

__all__ = ["rooms"]

_ROOT: Final = Path(__file__).parents[2]
_LEFT, _RIGHT, _TALL, _GAP = 24.0, 912.0, 62.0, 26.0
_ABOUT: Final = {
    "testing": "a kit for tests",
    "cli": "the command",
    "console": "deployments in a browser",
    "views": "what people are shown of manifests and plans",
    "server": "both interfaces, the process",
    "client": "the SDK",
    "launcher": "inside a workload",
    "evidence": "proof for outsiders",
    "coordinator": "state, events, decide, evolve, one writer",
    "manifest": "what may run",
    "authority": "keys, certificates",
    "journal": "sealed records",
    "attestation": "quotes",
    "witnesses": "asking them",
    "transparency": "logs that outsiders verify",
    "wire": "what both sides share",
    "base": "errors, secrets, files",
}
_TRUSTED: Final = {
    *("server", "coordinator", "manifest", "authority", "journal", "attestation"),
    *("witnesses", "transparency", "wire", "base"),
}


def rooms() -> Canvas:
    """Draw the layers."""
    layers = _layers()
    height = 24 + len(layers) * (_TALL + _GAP) + 44
    canvas = Canvas(
        936,
        height,
        "The rooms of Keyhouse",
        "Imports point downwards only: " + "; ".join(" and ".join(layer) for layer in layers) + ".",
    )
    y = 24.0
    for number, layer in enumerate(layers):
        wide = (_RIGHT - _LEFT - 16 * (len(layer) - 1)) / len(layer)
        for place, room in enumerate(layer):
            canvas.box(
                (_LEFT + place * (wide + 16), y, wide, _TALL),
                f"{room}/",
                _ABOUT[room],
                kind="blue" if room in _TRUSTED else "plain",
            )
        if number + 1 < len(layers):
            canvas.arrow([(468, y + _TALL + 3), (468, y + _TALL + _GAP - 3)])
        y += _TALL + _GAP
    canvas.text(24, y + 12, "Blue: the trusted code, of which the coordinator consists.", "note")
    canvas.text(
        24,
        y + 32,
        "Imports point downwards only; rooms on one floor do not import each other.",
        "note",
    )
    return canvas


def _layers() -> list[list[str]]:
    settings = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    first = settings["tool"]["importlinter"]["contracts"][0]
    return [
        [name.strip().removeprefix("keyhouse.") for name in layer.split("|")]
        for layer in first["layers"]
    ]
