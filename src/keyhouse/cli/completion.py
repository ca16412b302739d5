"""`keyhouse completion`: what lets a shell complete commands and options."""

from typing import Annotated, Literal

import click

from keyhouse.base.errors import RefusedError
from keyhouse.cli.output.show import show_json
from keyhouse.cli.parser import Argument, AsJson, command


@command
def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], Argument(metavar="SHELL", help="bash, zsh or fish")
    ],
    *,
    as_json: AsJson = False,
) -> None:
    r"""Print what completes commands in a shell.

    Example: source <(keyhouse completion bash)

    To have it always: put that line into ~/.bashrc or ~/.zshrc, or the output of
    keyhouse completion fish into ~/.config/fish/completions/keyhouse.fish.
    """
    from click.shell_completion import get_completion_class

    of_shell = get_completion_class(shell)
    if of_shell is None:
        raise RefusedError(f"the library completes nothing in {shell}")
    command = click.get_current_context().find_root().command
    script = of_shell(command, {}, "keyhouse", "_KEYHOUSE_COMPLETE").source()
    if as_json:
        show_json({"shell": shell, "script": script})
    else:
        click.echo(script)
