"""Words that do not make a command: exit code 2, as for what the parser itself refuses."""

from keyhouse.base.errors import Refused

__all__ = ["WrongUsage"]


class WrongUsage(Refused):
    """Options are missing, or do not go together."""

    code = "usage"
