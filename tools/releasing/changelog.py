"""Move the fragments of changelog.d into the section of a version in CHANGELOG.md."""

import re
from pathlib import Path
from typing import Final

_KINDS: Final = ("migration", "security", "added", "changed", "fixed", "removed")
_UNRELEASED: Final = "not released yet"


def fragments(tree: Path) -> dict[str, list[str]]:
    """Return the texts of the fragments by kind, in the order of their file names.

    Raises ``ValueError`` for an invalid file name.
    """
    found: dict[str, list[str]] = {kind: [] for kind in _KINDS}
    for file in _files(tree):
        name = re.fullmatch(r"(?:[0-9]+)?(?:\+[a-z0-9-]+)?\.([a-z]+)\.md", file.name)
        if name is None or name[1] not in found:
            raise ValueError(f"changelog.d/{file.name}: use NUMBER.KIND.md or +WORDS.KIND.md")
        text = " ".join(file.read_text(encoding="utf-8").split())
        found[name[1]].append(text)
    return found


def assemble(tree: Path, version: str, day: str) -> str:
    """Write the section of ``version``, delete the fragments, and return the section.

    A section with the heading ``VERSION (not released yet)`` keeps its text, and the fragments
    follow. Raises ``ValueError`` if the version has a released section.
    """
    file = tree / "CHANGELOG.md"
    text = file.read_text(encoding="utf-8")
    if re.search(rf"(?m)^## {re.escape(version)} \([0-9]", text):
        raise ValueError(f"CHANGELOG.md has a released section {version}: choose a new version")
    lists = "".join(
        f"**{kind.capitalize()}**\n\n" + "".join(f"- {_folded(each)}\n" for each in texts) + "\n"
        for kind, texts in fragments(tree).items()
        if texts
    )
    heading = f"## {version} ({day})\n\n"
    start = f"## {version} ({_UNRELEASED})\n\n"
    before, found, after = text.partition(start)
    if not found:
        before, second, after = text.partition("\n## ")
        before, after = f"{before}\n", f"{second[1:]}{after}"
    present, following = "", after
    if found:
        present, next_heading, rest = after.partition("\n## ")
        present = present.rstrip("\n") + "\n\n"
        following = f"{next_heading[1:]}{rest}"
    section = f"{heading}{present}{lists}".rstrip("\n") + "\n"
    separator = "\n" if following else ""
    file.write_text(f"{before}{section}{separator}{following}", encoding="utf-8")
    for fragment in _files(tree):
        fragment.unlink()
    return section


def _files(tree: Path) -> list[Path]:
    return sorted(each for each in (tree / "changelog.d").glob("*.md") if each.name != "README.md")


def _folded(text: str) -> str:
    """Return ``text`` in lines of at most 118 columns, indented below a list's dash."""
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > 116:  # noqa: PLR2004 120 columns as in CHANGELOG.md
            lines.append(line)
            line = ""
        line = f"{line} {word}" if line else word
    return "\n  ".join([*lines, line])
