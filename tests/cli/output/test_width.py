"""Text fits the width of a terminal, and stays on a single line in files and pipes."""

import click
import pytest

from keyhouse.cli.output.width import fitted

_SENTENCE = "warning  rollback: no witnesses: nothing stops an old state or a second copy"


@pytest.mark.parametrize("width", [30, 40, 60])
def test_lines_fit_and_no_word_is_broken(width: int) -> None:
    lines = fitted(_SENTENCE, width, 9).split("\n")
    assert all(len(line) <= width for line in lines)
    assert " ".join(line.strip() for line in lines) == _SENTENCE
    assert all(line.startswith(" " * 9) for line in lines[1:])


def test_longer_word_stays_whole() -> None:
    digest = "ab" * 32
    assert fitted(f"  fingerprint  {digest}", 40) == f"  fingerprint\n  {digest}"
    assert fitted(f"  {digest}", 40) == f"  {digest}"


def test_colours_need_no_columns() -> None:
    marked = click.style("ok", fg="green") + " python: 3.11.2"
    assert fitted(marked, 20) == marked


def test_files_and_pipes_receive_a_single_line() -> None:
    assert fitted(_SENTENCE, None) == _SENTENCE
