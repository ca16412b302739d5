"""A replica that the network no longer connects with its database, in a namespace of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.peers.postgres import PostgresServer
from support.process.tool import tool


def test_a_replica_that_is_cut_off_says_nothing_old_and_returns_by_itself(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    assert postgres.is_running  # it is skipped without the program
    apart = [tool("unshare"), "--net"]
    if subprocess.run([*apart, tool("true")], check=False, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("this user may not make a network namespace")
    tool("ip"), tool("nft")
    ended = subprocess.run(
        [*apart, sys.executable, "-m", "support.replicas.cut_off", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
