"""Commands of the interface's usual tool that Keyhouse lacks: refuse with an alternative."""

from typing import Final

import click

from keyhouse.cli.parser import ANY_WORDS, Command, WrongUsageError

_CHART: Final = "use the Helm chart in deploy/; see docs/how-to"
_CHECK: Final = (
    "use kubectl rollout status or keyhouse status HOST; for a manifest, keyhouse manifest check"
)


def _unsupported(reason: str, hint: str = _CHART) -> click.Command:
    def refuse() -> None:
        """Refuse the command with the alternative."""
        raise WrongUsageError(reason, hint=hint)

    return click.command(cls=Command, hidden=True, context_settings=ANY_WORDS)(refuse)


install = _unsupported("keyhouse installs nothing in a cluster")
uninstall = _unsupported("keyhouse removes nothing from a cluster")
precheck = _unsupported("keyhouse does not check the machines of a Kubernetes cluster")
check = _unsupported("keyhouse does not check its own parts in a Kubernetes cluster", _CHECK)
