"""`keyhouse completion`: print a script for the completion of commands and options in a shell."""

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
    """Print a completion script for a shell.

    The script completes commands, options, contexts and files. It also completes names of secrets
    and recovery keys from manifest.json or manifest.yaml in the current folder.

    Example: source <(keyhouse completion bash)

    To load the script in every shell, add that line to ~/.bashrc or ~/.zshrc, or write the output
    of keyhouse completion fish to ~/.config/fish/completions/keyhouse.fish.
    """
    from click.shell_completion import get_completion_class

    of_shell = get_completion_class(shell)
    if of_shell is None:
        raise RefusedError(f"completion is not supported for {shell}", hint="use bash, zsh or fish")
    command = click.get_current_context().find_root().command
    script = of_shell(command, {}, "keyhouse", "_KEYHOUSE_COMPLETE").source()
    if as_json:
        show_json({"shell": shell, "script": script})
    else:
        click.echo(script)
