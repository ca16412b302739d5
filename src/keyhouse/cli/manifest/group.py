"""`keyhouse manifest`: commands about manifests."""

import typer

from keyhouse.cli.manifest import read as manifest_read
from keyhouse.cli.manifest.check import check
from keyhouse.cli.manifest.convert import convert
from keyhouse.cli.manifest.diff import compare
from keyhouse.cli.manifest.plan import plan
from keyhouse.cli.manifest.set import set_manifest
from keyhouse.cli.manifest.template import template
from keyhouse.cli.manifest.update import app as update_app
from keyhouse.cli.output.talk import AsJson, show_json, speaks

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Check, set, read and update manifests.")


@app.callback()
def group() -> None:
    """Check, set, read and update manifests."""


@app.command(name="schema")
@speaks
def schema(*, as_json: AsJson = False) -> None:
    """Print the JSON Schema of a manifest, for editors.

    Example: keyhouse manifest schema > manifest.schema.json
    """
    import json

    from keyhouse.manifest.source.schema import manifest_schema

    if as_json:
        show_json(manifest_schema())
        return
    typer.echo(json.dumps(manifest_schema(), indent=2, ensure_ascii=False))


app.command(name="check")(check)
app.command(name="convert")(convert)
app.command(name="diff")(compare)
app.command(name="template")(template)
app.command(name="plan")(plan)
app.command(name="set")(set_manifest)
app.command(name="get")(manifest_read.get)
app.command(name="verify")(manifest_read.verify)
app.command(name="log")(manifest_read.log)
app.command(name="signature")(manifest_read.signature)
app.add_typer(update_app, name="update")
