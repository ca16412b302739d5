"""The commands of `keyhouse log`."""

from keyhouse.cli.log.mirror import key, mirror
from keyhouse.cli.log.policy import policy_app
from keyhouse.cli.log.restore import restore
from keyhouse.cli.parser import CommandGroup

app = CommandGroup()
app.add_command(key, "key")
app.add_command(mirror, "mirror")
app.add_command(restore, "restore")
app.add_command(policy_app, "policy")
