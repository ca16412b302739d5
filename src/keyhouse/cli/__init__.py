"""The `keyhouse` command."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line: placeholder until the commands land in this change."""
    sys.exit("keyhouse: no command yet")
