"""`keyhouse serve` and `run`: in the list of commands, but read by parsers of their own."""

__all__ = ["launch", "serve"]


def serve() -> None:
    """Run the coordinator. Its own help: keyhouse serve --help."""


def launch() -> None:
    """Join a deployment as a workload, then become a program. Its own help: keyhouse run --help."""
