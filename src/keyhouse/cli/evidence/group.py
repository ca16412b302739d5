"""`keyhouse evidence`: its commands."""

from keyhouse.cli.evidence.host import export, proof
from keyhouse.cli.evidence.offline import show, verify
from keyhouse.cli.parser import Group

app = Group()
for _name, _function in (("export", export), ("verify", verify), ("show", show), ("proof", proof)):
    app.command(_name)(_function)
