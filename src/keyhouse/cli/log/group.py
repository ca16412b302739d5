"""`keyhouse log`: its commands."""

from keyhouse.cli.log.policy import policy_app
from keyhouse.cli.parser import Group

app = Group()
app.add_command(policy_app, "policy")
