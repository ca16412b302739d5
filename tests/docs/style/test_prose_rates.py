"""The prose of the program stays easy to read: rates of vague words by room and large file."""

from pathlib import Path
from typing import Final

import pytest
from support.prose import CEILINGS, Tally, prose_of, tally_of

_SOURCES: Final = Path(__file__).parents[3] / "src" / "keyhouse"
_SPLIT: Final = {"coordinator", "journal"}  # their folders are rooms of their own
_GENERATED: Final = {"marble_pb2.py", "workload_pb2.py"}
_LARGE: Final = 500  # words; in a smaller file a few words decide the rates


def _rooms() -> dict[str, list[Path]]:
    rooms: dict[str, list[Path]] = {}
    for file in sorted(_SOURCES.rglob("*.py")):
        folders = file.relative_to(_SOURCES).parts[:-1]
        if folders and file.name not in _GENERATED:
            depth = 2 if folders[0] in _SPLIT else 1
            rooms.setdefault("/".join(folders[:depth]), []).append(file)
    return rooms


_ROOMS: Final = _rooms()


@pytest.mark.parametrize("room", _ROOMS)
def test_no_room_exceeds_its_ceilings(room: str) -> None:
    excess = tally_of(_ROOMS[room]).excess(CEILINGS)

    assert excess == {}, "name the thing instead of that, what, it, one or other"


@pytest.mark.parametrize("room", _ROOMS)
def test_no_large_file_exceeds_twice_the_targets(room: str) -> None:
    tallies = {file.name: tally_of([file]) for file in _ROOMS[room]}
    large = {name: tally for name, tally in tallies.items() if tally.words >= _LARGE}

    excess = {name: tally.excess(CEILINGS) for name, tally in large.items()}
    assert {name: rates for name, rates in excess.items() if rates} == {}


def test_docstrings_and_comments_are_counted_and_code_is_not() -> None:
    source = '''
"""What it is."""
WHAT = "what"  # noqa: X what
LIMIT = 1  # the one that counts, and others
"""A string below a constant, which counts."""
'''

    tally = Tally(prose_of(source))

    assert tally.words == 16
    counts = {name: round(rate * tally.words / 1000) for name, rate in tally.rates().items()}
    assert counts == {"relative": 2, "what": 1, "it": 1, "other": 2}


def test_a_numeral_is_not_counted() -> None:
    assert Tally(["One replica and one store."]).rates()["other"] == 0
