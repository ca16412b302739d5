"""Commands of the interface's usual tool that are not offered here: where to look instead."""

from typing import Final

from keyhouse.cli.output.talk import speaks
from keyhouse.cli.output.usage import WrongUsage

__all__ = ["ELSEWHERE", "install", "precheck", "uninstall"]

_CHART: Final = "the Helm chart under deploy/ does that; see docs/how-to"

ELSEWHERE: Final = {
    "install": "keyhouse installs nothing in a cluster",
    "uninstall": "keyhouse removes nothing from a cluster",
    "precheck": "keyhouse asks no Kubernetes which machines it has",
    "check": "keyhouse asks no Kubernetes whether its parts are ready",
}
"""Names that lead here, and why."""


def _not_here(name: str, hint: str = _CHART) -> None:
    raise WrongUsage(ELSEWHERE[name], hint=hint)


@speaks
def install() -> None:
    """Say where to look: not offered."""
    _not_here("install")


@speaks
def uninstall() -> None:
    """Say where to look: not offered."""
    _not_here("uninstall")


@speaks
def precheck() -> None:
    """Say where to look: not offered."""
    _not_here("precheck")


@speaks
def check() -> None:
    """Say where to look: not offered."""
    _not_here(
        "check",
        "kubectl rollout status, or keyhouse status HOST; for a manifest keyhouse manifest check",
    )
