"""Commands of the interface's usual tool that Keyhouse does not have: what to use instead."""

from typing import Final

import click

from keyhouse.cli.parser import ANY_WORDS, Command, WrongUsageError

_CHART: Final = "the Helm chart under deploy/ does that; see docs/how-to"
_CHECK: Final = (
    "kubectl rollout status, or keyhouse status HOST; for a manifest keyhouse manifest check"
)


def _unsupported(reason: str, hint: str = _CHART) -> click.Command:
    def refuse() -> None:
        """Say where to look: not offered."""
        raise WrongUsageError(reason, hint=hint)

    return click.command(cls=Command, hidden=True, context_settings=ANY_WORDS)(refuse)


install = _unsupported("keyhouse installs nothing in a cluster")
uninstall = _unsupported("keyhouse removes nothing from a cluster")
precheck = _unsupported("keyhouse does not ask Kubernetes which machines it has")
check = _unsupported("keyhouse does not ask Kubernetes whether its parts are ready", _CHECK)
