"""``python -m examples.redis``: the whole example. See README.md."""

import sys

from examples.redis.steps import show
from examples.walk import play

if __name__ == "__main__":
    sys.exit(play("An unmodified Redis in a cluster.", show))
