"""`keyhouse context`: name a deployment once, instead of typing where it is and who it must be."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from keyhouse.cli.context.options import Described
from keyhouse.cli.options.context_file import (
    NAMES,
    Context,
    Contexts,
    ContextUnusable,
    change,
    contexts_path,
    read,
)
from keyhouse.cli.output.table import show_table
from keyhouse.cli.output.talk import AsJson, show_json, show_rows, speaks
from keyhouse.cli.output.usage import WrongUsage

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True, help="Name deployments: where they are, who they must be, who you are."
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="name of the context")]


@app.command(name="add")
@speaks
def add(
    name: NameArgument,
    described: Described,
    *,
    replace: Annotated[bool, typer.Option("--replace", help="put it in place of NAME")] = False,
    as_json: AsJson = False,
) -> None:
    """Keep a deployment under a name; the first one is in use at once.

    Example: keyhouse context add prod --address keyhouse.example.com:4433
    --attestation attestation.json --pccs https://pccs.example.com:8081 --cert me.crt --key me.key

    Files are named, not copied: what they hold counts when a command runs. No password is kept.
    """
    if not NAMES.fullmatch(name) or name == "none":
        raise WrongUsage(
            f"{name!r} cannot name a context",
            hint="letters, digits, dots, dashes and underlines; up to 64; not none",
        )
    made = described.as_context()

    def step(known: Contexts) -> Contexts:
        if name in known.contexts and not replace:
            raise ContextUnusable(
                f"there is a context {name!r}", hint="--replace it, or name another"
            )
        return Contexts(known.current or name, {**known.contexts, name: made})

    _show(name, made, current=_change(step).current == name, as_json=as_json)


@app.command(name="use")
@speaks
def use(name: NameArgument, *, as_json: AsJson = False) -> None:
    """Let commands without --context be in this one; none: in none.

    Example: keyhouse context use prod
    """

    def step(known: Contexts) -> Contexts:
        if name != "none":
            _require(known, name)
        return msgspec.structs.replace(known, current="" if name == "none" else name)

    _change(step)
    if as_json:
        show_json({"current": None if name == "none" else name})
    else:
        show_rows({"in use": name})


@app.command(name="list")
@speaks
def list_(*, as_json: AsJson = False) -> None:
    """List the contexts; * marks the one in use.

    Example: keyhouse context list
    """
    known = _known()
    if as_json:
        show_json({"current": known.current or None, "contexts": known.contexts})
    elif known.contexts:
        rows = [
            ("*" if name == known.current else "", name, one.address, _trust(one), _who(one))
            for name, one in sorted(known.contexts.items())
        ]
        show_table(("", "NAME", "ADDRESS", "TRUST", "USER"), rows)
    else:
        typer.echo("there is no context; keyhouse context add makes one", err=True)


@app.command(name="show")
@speaks
def show(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="name of the context; the one in use")
    ] = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Print everything in a context.

    Example: keyhouse context show prod
    """
    known = _known()
    name = name or known.current
    if not name:
        raise ContextUnusable("no context is in use", hint="name one; keyhouse context list")
    _show(name, _require(known, name), current=name == known.current, as_json=as_json)


@app.command(name="remove")
@speaks
def remove(name: NameArgument, *, as_json: AsJson = False) -> None:
    """Forget a context. The files that it names stay.

    Example: keyhouse context remove prod
    """

    def step(known: Contexts) -> Contexts:
        _require(known, name)
        rest = {each: one for each, one in known.contexts.items() if each != name}
        return Contexts("" if known.current == name else known.current, rest)

    _change(step)
    if as_json:
        show_json({"removed": name})
    else:
        show_rows({"removed": name})


def _known() -> Contexts:
    return read(contexts_path())


def _require(known: Contexts, name: str) -> Context:
    if name not in known.contexts:
        raise ContextUnusable(f"there is no context {name!r}", hint="keyhouse context list")
    return known.contexts[name]


def _change(step: Callable[[Contexts], Contexts]) -> Contexts:
    path: Path | None = contexts_path()
    if path is None:
        raise ContextUnusable(
            "there is no place for contexts", hint="set XDG_CONFIG_HOME or HOME to a directory"
        )
    return change(path, step)


def _show(name: str, context: Context, *, current: bool, as_json: bool) -> None:
    fields = msgspec.to_builtins(context)
    if as_json:
        show_json({"name": name, "current": current, "context": fields})
        return
    rows = {"name": f"{name}  in use" if current else name}
    rows |= {
        field: value if isinstance(value, str) else ", ".join(value)
        for field, value in fields.items()
    }
    show_rows(rows)


def _trust(context: Context) -> str:
    return "SIMULATION" if context.simulation_root else "hardware" if context.attestation else ""


def _who(context: Context) -> str:
    return context.cert or context.pkcs12 or context.pkcs11_config
