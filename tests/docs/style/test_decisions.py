"""Decisions state their date and status, and name files of this repository."""

import re
from datetime import date
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs" / "decisions"
DECISIONS = sorted(FOLDER.glob("[0-9]*.md"))
UNUSED = {38, 41, 47, 49}
STATE_FOLDERS = {"archive/", "incoming/"}  # folders of a state directory, not of the repository

_STATUS = re.compile(r"Date: (\d{4}-\d\d-\d\d)\. Status: (accepted|replaced)\.( .*)?")
_LINK = re.compile(r"\[\d{4}\]\((\d{4}-[a-z0-9-]+\.md)\)")
_NAMED = re.compile(r"`([\w./_-]+(?:\.py|/))`")


def _line(page: Path, number: int) -> str:
    return page.read_text(encoding="utf-8").splitlines()[number - 1]


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.name[:4])
def test_the_third_line_states_date_and_status(page: Path) -> None:
    assert re.fullmatch(rf"# {page.name[:4]} \S.*", _line(page, 1))
    stated = _STATUS.fullmatch(_line(page, 3))
    assert stated is not None, _line(page, 3)
    date.fromisoformat(stated[1])
    assert stated[2] == "accepted" or _LINK.search(stated[3] or "")
    for linked in _LINK.findall(stated[3] or ""):
        assert f"[{page.name[:4]}]({page.name})" in _line(FOLDER / linked, 3), linked


def test_every_number_is_a_page_or_stated_as_unused() -> None:
    numbers = {int(page.name[:4]) for page in DECISIONS}

    assert set(range(1, max(numbers) + 1)) - numbers == UNUSED
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"{number:04}" in index for number in UNUSED | numbers)


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.name[:4])
def test_named_files_exist(page: Path) -> None:
    named = set(_NAMED.findall(page.read_text(encoding="utf-8"))) - STATE_FOLDERS

    missing = {name for name in named if not any(_places(name))}
    assert missing == set()


def _places(name: str) -> list[Path]:
    bases = [ROOT, ROOT / "src" / "keyhouse", ROOT / "tests", ROOT / "docs"]
    direct = [base / name for base in bases if (base / name).exists()]
    return direct or [*(ROOT / "src").rglob(name.rstrip("/")), *(ROOT / "tests").rglob(name)]
