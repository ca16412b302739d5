"""What pages say about the part of the log that they show."""

import time

from keyhouse.client.contexts import SavedContext
from keyhouse.console.deployments import ConsoleDeployment
from keyhouse.console.guard import Gate
from keyhouse.console.page import SECTIONS, Console, Page
from keyhouse.console.public_log import LogPart


def history(log: LogPart) -> str:
    """Return the page History over ``log``, without its line breaks."""
    console = Console(Gate(60, time.monotonic), "", read_only=True)
    values = {
        "sections": SECTIONS,
        "section": "history",
        "deployment": ConsoleDeployment("prod", SavedContext(address="h:1"), read_only=True),
        "contexts": ("prod",),
        "read_only": True,
        "csrf": "token",
        "idle": 60,
        "total": 0,
        "kinds": {},
        "kind": "",
        "word": "",
        "events": Page((), 0, 1, "", ""),
        "log": log,
    }
    return " ".join(console.html("history.html", values).split())


def test_a_log_that_is_shown_whole_needs_no_words() -> None:
    page = history(LogPart((), 0, 12_000))
    assert "of the transparency log" not in page
    assert "older entries" not in page


def test_a_part_says_which_entries_it_is_and_how_to_read_more() -> None:
    page = history(LogPart((), 7_904, 12_000))
    assert "come from the entries 7,905 to 12,000 of 12,000 of the transparency log." in page
    assert 'action="/d/prod/history/older"' in page
    assert 'name="csrf" value="token"' in page


def test_entries_that_are_not_understood_are_named() -> None:
    assert "cannot read 1 entry of the transparency log" in history(LogPart((), 0, 9, 1))
    assert "cannot read 2 entries of the transparency log" in history(LogPart((), 0, 9, 2))
