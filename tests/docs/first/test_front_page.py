"""The front page of the documentation shows the output of this version, and no other."""

from pathlib import Path

import pytest
from support.pages.front_page import PAGE, renewed, typed

pytestmark = pytest.mark.acceptance


def test_session_of_the_front_page_is_the_output_of_this_version(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert renewed(page, typed(tmp_path)) == page
