"""`keyhouse manifest`: commands about manifests."""

import typer

from keyhouse.cli.manifest import change, diff, offline, plan, read, template

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Check, set, read and update manifests.")
app.command(name="schema")(offline.schema)
app.command(name="check")(offline.check)
app.command(name="convert")(offline.convert)
app.command(name="diff")(diff.compare)
app.command(name="template")(template.template)
app.command(name="plan")(plan.plan)
app.command(name="set")(change.set_manifest)
app.command(name="get")(read.get)
app.command(name="verify")(read.verify)
app.command(name="log")(read.log)
app.command(name="signature")(offline.signature)
app.add_typer(change.update_app, name="update")
