"""Record all paths, and print or write the number of files on each path."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from ways.paths import record_paths
from ways.recorded import Calls
from ways.table import PAGE, renewed


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command ``scripts/ways``."""
    parser = argparse.ArgumentParser(prog="scripts/ways", description=__doc__)
    parser.add_argument("--list", action="store_true", help="name the files and functions")
    parser.add_argument("--write", action="store_true", help="write the numbers to ARCHITECTURE.md")
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as folder:
        found = record_paths(Path(folder))
    for name, calls in found.items():
        print(f"{name}: {len(calls)} files, {sum(map(len, calls.values()))} functions")
        if options.list:
            _print_calls(calls)
    if options.write:
        PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
        print(f"written: {PAGE.name}")


def _print_calls(calls: Calls) -> None:
    for module, functions in calls.items():
        print(f"  {module}: {', '.join(functions)}")


if __name__ == "__main__":
    main()
