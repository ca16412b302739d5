"""`keyhouse completion`: what lets a shell complete commands and options."""

from enum import StrEnum
from typing import Annotated

import typer

from keyhouse.cli.output.command import AsJson, command
from keyhouse.cli.output.show import show_json

__all__ = ["completion"]


class Shell(StrEnum):
    """A shell that can be helped."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@command
def completion(
    shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish")], *, as_json: AsJson = False
) -> None:
    r"""Print what completes commands and options in a shell.

    Example: source <(keyhouse completion bash)

    To have it always: put that line into ~/.bashrc or ~/.zshrc, or the output of
    keyhouse completion fish into ~/.config/fish/completions/keyhouse.fish.
    """
    # Publicly typer prints only the script of the shell that it detects itself.
    from typer._completion_shared import get_completion_script

    script = get_completion_script(
        prog_name="keyhouse", complete_var="_KEYHOUSE_COMPLETE", shell=shell.value
    )
    if as_json:
        show_json({"shell": shell.value, "script": script})
    else:
        typer.echo(script)
