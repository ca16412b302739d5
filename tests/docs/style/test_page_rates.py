"""The pages stay easy to read: rates of vague words, lengths of sentences, by folder and page."""

from pathlib import Path
from statistics import median, quantiles
from typing import Final

import pytest
from support.prose import CEILINGS, TARGETS, Tally, prose_of_page, sentence_lengths

_ROOT: Final = Path(__file__).parents[3]
_PLACES: Final = ("*.md", "docs/**/*.md", "tools/*/*.md")
_LARGE: Final = 500  # words; in a smaller page or folder a few words decide the rates

# Sentences of a well written page, in words: the median and the length of nine sentences of ten.
_MEDIAN: Final = 11
_NINE_OF_TEN: Final = 22


def _folders() -> dict[str, dict[str, str]]:
    """Return the prose of each page, by the path of the folder."""
    folders: dict[str, dict[str, str]] = {}
    for place in _PLACES:
        for page in sorted(_ROOT.glob(place)):
            folder = str(page.relative_to(_ROOT).parent)
            prose = prose_of_page(page.read_text(encoding="utf-8"))
            folders.setdefault(folder, {})[page.name] = prose
    return {name: pages for name, pages in folders.items() if Tally(pages.values()).words >= _LARGE}


_FOLDERS: Final = _folders()


@pytest.mark.parametrize("folder", _FOLDERS)
def test_no_folder_of_pages_exceeds_its_ceilings(folder: str) -> None:
    excess = Tally(_FOLDERS[folder].values()).excess(TARGETS)

    assert excess == {}, "name the thing instead of that, what, it, one or other"


@pytest.mark.parametrize("folder", _FOLDERS)
def test_no_large_page_exceeds_twice_the_targets(folder: str) -> None:
    tallies = {name: Tally([prose]) for name, prose in _FOLDERS[folder].items()}
    large = {name: tally for name, tally in tallies.items() if tally.words >= _LARGE}

    excess = {name: tally.excess(CEILINGS) for name, tally in large.items()}
    assert {name: rates for name, rates in excess.items() if rates} == {}


# Records of measurements name many conditions in a sentence, so their sentences are longer.
@pytest.mark.parametrize("folder", [each for each in _FOLDERS if not each.startswith("tools/")])
def test_sentences_of_a_folder_are_short(folder: str) -> None:
    lengths = [each for prose in _FOLDERS[folder].values() for each in sentence_lengths(prose)]

    most = quantiles(lengths, n=10)[-1]
    assert (median(lengths) <= _MEDIAN, most <= _NINE_OF_TEN) == (True, True)


def test_prose_is_counted_and_code_tables_and_targets_are_not() -> None:
    page = """# What a page says

`What` it is: [see](what.md).

```sh
echo what
```

| What | It |
|---|---|

<!-- what -->

1. Read the other one.
2. Stop. `That` is the end.
"""

    prose = prose_of_page(page)

    tally = Tally([prose])
    counts = {name: round(rate * tally.words / 1000) for name, rate in tally.rates().items()}
    assert counts == {"relative": 0, "what": 1, "it": 1, "other": 2}
    assert sentence_lengths(prose) == [4, 4, 4, 4]
