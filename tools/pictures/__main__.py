"""Draws every picture again, into ``docs/pictures``: ``scripts/pictures`` runs it."""

import argparse
from pathlib import Path

from pictures.benchmark import keep_figures
from pictures.console import take_pictures
from pictures.kills import record_kills
from pictures.record import record
from pictures.table import FOLDER, pictures


def main() -> None:
    """Record what is asked for, then write each picture to its file."""
    parser = argparse.ArgumentParser(
        prog="scripts/pictures", description="Draw the pictures again."
    )
    parser.add_argument("--record", action="store_true", help="record the terminal session before")
    parser.add_argument("--kills", action="store_true", help="record a run of kills before")
    parser.add_argument("--console", action="store_true", help="take pictures of the console")
    parser.add_argument("--bench", type=Path, help="take figures of scripts/bench --json FILE")
    options = parser.parse_args()
    if options.record:
        record()
    if options.kills:
        record_kills()
    if options.console:
        take_pictures()
    if options.bench:
        keep_figures(options.bench)
    for name, text in pictures().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
