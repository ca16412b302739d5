"""ARCHITECTURE.md and its picture say where things are: held against the tree."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest
from support.pages.trusted_code import code_lines

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


def test_no_file_is_a_sliver_of_the_only_one_that_imports_it() -> None:
    files = {
        ".".join(path.relative_to(SOURCES.parent).with_suffix("").parts): path.read_text("utf-8")
        for path in SOURCES.rglob("*.py")
        if not path.name.startswith("__") and not path.stem.endswith("_pb2")
    }
    importers = defaultdict(set)
    for importer, text in files.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module:
                importers[node.module].add(importer)
                for name in node.names:
                    importers[f"{node.module}.{name.name}"].add(importer)

    slivers = [
        name for name, text in files.items() if len(importers[name]) == 1 and code_lines(text) <= 25
    ]

    assert len(files) > 300
    assert slivers == []


def test_only_a_file_that_offers_names_of_others_lists_its_names() -> None:
    needless = []
    for path in sorted(SOURCES.rglob("*.py")):
        tree = ast.parse(path.read_bytes())
        imported = {
            alias.asname or alias.name
            for node in tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        listed = [
            ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
            if isinstance(node.value, ast.List)
        ]
        if path.name != "__init__.py" and listed and not imported & {*listed[0]}:
            needless.append(str(path.relative_to(ROOT)))

    assert needless == []
