"""SIGKILL between any two writes of a commit to the disk."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from support.process.server import Server
from support.process.timed_kills import lose_nothing_by_kills_at_writes

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]


def test_nothing_acknowledged_is_lost_by_a_kill_between_two_writes(tmp_path: Path) -> None:
    def make(data: Path, wrapper: Sequence[str]) -> Server:
        return Server(data, wrapper=wrapper)

    lose_nothing_by_kills_at_writes(tmp_path, make)
