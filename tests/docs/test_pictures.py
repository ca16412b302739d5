"""Pictures are what their sources draw, can be read by everybody, and stand on a page."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from pictures.canvas import Canvas, TooWideError
from pictures.table import FOLDER, pictures

_ROOT = Path(__file__).parents[2]
_DRAWN = pictures()
_PAGES = "".join(
    page.read_text(encoding="utf-8")
    for place in ("*.md", "docs/**/*.md", "tools/*/*.md")
    for page in _ROOT.glob(place)
)


def test_every_picture_in_the_folder_has_a_source() -> None:
    assert {path.name for path in FOLDER.glob("*.svg")} == set(_DRAWN)


@pytest.mark.parametrize("name", _DRAWN)
def test_picture_is_what_its_source_draws(name: str) -> None:
    drawn_now = (FOLDER / name).read_text(encoding="utf-8")

    assert drawn_now == _DRAWN[name], "scripts/pictures draws it again"


@pytest.mark.parametrize("name", _DRAWN)
def test_picture_has_both_themes_and_words_for_who_cannot_see_it(name: str) -> None:
    root = ET.fromstring(_DRAWN[name])  # noqa: S314 our own picture
    texts = {child.tag.rpartition("}")[2]: child.text or "" for child in root}

    assert len(texts["title"]) > 5
    assert len(texts["desc"]) > 40
    assert "prefers-color-scheme:dark" in texts["style"]


@pytest.mark.parametrize("name", _DRAWN)
def test_picture_stands_on_a_page_with_a_text_in_its_place(name: str) -> None:
    shown = re.findall(rf"!\[([^\]]+)\]\([^)]*pictures/{re.escape(name)}\)", _PAGES)

    assert shown
    assert all(len(text) > 20 for text in shown)


def test_text_that_leaves_its_box_is_an_error() -> None:
    canvas = Canvas(400, 200, "A picture", "of nothing")

    with pytest.raises(TooWideError, match="needs"):
        canvas.box((10, 10, 60, 40), "a name that is much too long")
    with pytest.raises(TooWideError, match="leaves"):
        canvas.text(390, 20, "over the edge")
