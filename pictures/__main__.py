"""Draws every picture again, into ``docs/pictures``: ``scripts/pictures`` runs it."""

from pictures.table import FOLDER, pictures


def main() -> None:
    """Write each picture to its file."""
    for name, text in pictures().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
