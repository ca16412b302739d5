"""Refuse commands of MarbleRun's tool that Keyhouse has in a group: name the right command."""

from typing import Final

import click

from keyhouse.cli.parser import ANY_WORDS, Command, WrongUsageError


def _unsupported(reason: str, hint: str) -> click.Command:
    def refuse() -> None:
        """Refuse this command of MarbleRun's tool, and name Keyhouse's command for the task."""
        raise WrongUsageError(reason, hint=hint)

    return click.command(cls=Command, hidden=True, context_settings=ANY_WORDS)(refuse)


_REASON: Final = "the commands for a Kubernetes cluster are in a group"

install = _unsupported(_REASON, "use keyhouse kube install")
uninstall = _unsupported(_REASON, "use keyhouse kube uninstall")
precheck = _unsupported(_REASON, "use keyhouse kube precheck")
check = _unsupported(_REASON, "use keyhouse kube check; for a manifest, keyhouse manifest check")
