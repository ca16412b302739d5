"""The log as it is written: one JSON object on a line, or text."""

import json
import re
from collections.abc import Iterator

import pytest

from keyhouse.base.log import log
from keyhouse.server.logs import _text, configure_logs

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z"


@pytest.fixture(autouse=True)
def sink() -> Iterator[None]:
    before = log.sink, log.least
    yield
    log.sink, log.least = before


def test_an_entry_is_one_json_object(capfd: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", "json")
    log.warning("it happened", count=2, names=["ä"], place="a b", gone=None, odd=b"x")
    line = capfd.readouterr().err
    assert line.isascii()
    assert line.endswith("\n")
    entry = json.loads(line)
    assert list(entry) == [
        *("count", "names", "place", "gone", "odd"),
        *("event", "level", "timestamp"),
    ]
    assert re.fullmatch(TIME, entry.pop("timestamp"))
    assert entry == {
        "count": 2,
        "names": ["ä"],
        "place": "a b",
        "gone": None,
        "odd": "b'x'",
        "event": "it happened",
        "level": "warning",
    }


def test_each_entry_of_one_of_several_has_its_number(capfd: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", "json", 2)
    log.info("it happened", count=1)
    entry = json.loads(capfd.readouterr().err)
    assert (entry["replica"], entry["count"]) == (2, 1)


def test_text_has_the_fields_in_order_behind_the_event(capfd: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", "text")
    log.info("it happened", b="x", a="two words", n=1)
    log.error("nothing more to say")
    first, second = capfd.readouterr().err.splitlines()
    event = "it happened".ljust(30)
    assert re.fullmatch(rf"{TIME} \[info     \] {event} a='two words' b=x n=1", first)
    assert re.fullmatch(rf"{TIME} \[error    \] nothing more to say", second)


def test_colours_end_where_they_began() -> None:
    line = _text("now", "warning", "event", {"name": "value"}, has_colours=True)
    assert line == (
        f"\33[2mnow\33[0m [\33[33m\33[1m{'warning':9}\33[0m] \33[1m{'event':30}\33[0m"
        " \33[36mname\33[0m=\33[35mvalue\33[0m"
    )


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.parametrize("text", ["\x1b[31m", "\nerror: b", "\r", "\x00", "\u202e", "\udc80"])
def test_no_entry_forges_a_line_or_drives_a_terminal(
    text: str, form: str, capfd: pytest.CaptureFixture[str]
) -> None:
    configure_logs("info", form)
    log.info(f"a{text}b", field=f"c{text}d", names=[f"e{text}f"])
    [line] = capfd.readouterr().err.splitlines()
    assert line.isprintable()


@pytest.mark.parametrize("form", ["json", "text"])
def test_only_the_wanted_level_and_above_is_told(
    form: str, capfd: pytest.CaptureFixture[str]
) -> None:
    configure_logs("warning", form)
    log.debug("no")
    log.info("no")
    log.warning("first")
    log.error("second")
    told = capfd.readouterr().err.splitlines()
    assert ["first" in told[0], "second" in told[1], len(told)] == [True, True, 2]
