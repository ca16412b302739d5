"""The search of the site ranks pages with tasks above reference and decisions."""

from pathlib import Path

import pytest
from support.peers.console import chromium

_SCORER = Path(__file__).parents[3] / "docs/scorer.js"
_BEST_FIRST = (
    "docs/tutorial/index",
    "docs/how-to/recovery",
    "SECURITY",
    "docs/reference/settings",
    "docs/decisions/0014-recovery",
)

pytestmark = pytest.mark.acceptance


def test_equal_matches_rank_by_the_purpose_of_the_page() -> None:
    with chromium() as browser:
        page = browser.new_page()
        page.add_script_tag(content=_SCORER.read_text("utf-8"))
        scores = [
            page.evaluate("name => Scorer.score([name, '', '', null, 15, ''])", name)
            for name in _BEST_FIRST
        ]
        page.close()
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == len(scores)


def test_decision_with_the_word_in_its_title_stays_below_a_how_to_with_the_word() -> None:
    with chromium() as browser:
        page = browser.new_page()
        page.add_script_tag(content=_SCORER.read_text("utf-8"))
        title, text = page.evaluate(
            """() => [
              Scorer.score(['docs/decisions/0014-recovery', '', '', null, Scorer.title, '']),
              Scorer.score(['docs/how-to/recovery', '', '', null, Scorer.partialTerm, '']),
            ]"""
        )
        page.close()
    assert title < text
