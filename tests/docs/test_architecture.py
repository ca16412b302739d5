"""ARCHITECTURE.md and its picture say where things are: held against the tree."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
SOURCES = ROOT / "src" / "keyhouse"
ROOMS = sorted(path.name for path in SOURCES.iterdir() if (path / "__init__.py").exists())


def test_every_place_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`([a-z_]+/(?:[a-z0-9_]+/)*(?:[a-z0-9_]+\.py)?)`", PAGE))
    inside = {path.name + "/" for room in ROOMS for path in (SOURCES / room).iterdir()}

    missing = [
        place
        for place in sorted(named)
        if not (SOURCES / place).exists() and not (ROOT / place).exists() and place not in inside
    ]

    assert named
    assert missing == []


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_has_its_row_and_its_box(room: str) -> None:
    assert f"| `{room}/` |" in PAGE
    assert f">{room}/</text>" in (ROOT / "docs/pictures/rooms.svg").read_text(encoding="utf-8")


def test_every_folder_of_the_trusted_rooms_is_told_of() -> None:
    rows = {
        row.split("/`")[0].lstrip("| `"): row for row in re.findall(r"^\| `.*$", PAGE, re.MULTILINE)
    }
    untold = [
        f"{room}/{path.name}"
        for room in ROOMS
        if room not in {"client", "cli"}
        for path in sorted((SOURCES / room).iterdir())
        if (path / "__init__.py").exists() and f"`{path.name}/`" not in rows[room]
    ]

    assert untold == []


@pytest.mark.parametrize("tree", [SOURCES, ROOT / "tests"])
def test_no_folder_holds_more_files_than_can_be_seen_at_a_glance(tree: Path) -> None:
    full = {
        str(folder.relative_to(ROOT)): count
        for folder in [tree, *(path for path in tree.rglob("*") if path.is_dir())]
        if (count := len(list(folder.glob("*.py")))) > 22
    }

    assert full == {}
