"""The commands of `keyhouse manifest`."""

from keyhouse.cli.manifest import change, diff, offline, plan, read, template
from keyhouse.cli.parser import CommandGroup

app = CommandGroup()
app.add_command(offline.schema, "schema")
app.add_command(offline.check, "check")
app.add_command(offline.convert, "convert")
app.add_command(diff.compare, "diff")
app.add_command(template.template, "template")
app.add_command(plan.plan, "plan")
app.add_command(change.set_manifest, "set")
app.add_command(read.get, "get")
app.add_command(read.verify, "verify")
app.add_command(read.log, "log")
app.add_command(offline.signature, "signature")
app.add_command(change.update_app, "update")
