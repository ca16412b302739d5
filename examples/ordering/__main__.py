"""``python -m examples.ordering``: the whole example. See README.md."""

import sys

from examples.ordering.steps import show
from examples.walk import play

if __name__ == "__main__":
    sys.exit(play("A shop of two services that verify each other's certificates.", show))
