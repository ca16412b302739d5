"""``--timeout``: how long a command waits for a coordinator."""

import json
import socket
from pathlib import Path

from support.process.command_tree import typed

from keyhouse.cli.options.target import Target
from keyhouse.client import Timeouts


def test_what_is_given_limits_connections_answers_and_all_of_a_call() -> None:
    assert Target(timeout=5).timeouts() == Timeouts(5, 5, 5)
    assert Target(timeout=120).timeouts() == Timeouts(120, 120, 120)
    assert Target().timeouts() == Timeouts()


def test_who_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    identity = tmp_path / "a.json"
    identity.write_text(json.dumps({"UniqueID": "00" * 32}))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        trust = ["--attestation", str(identity), "--pccs", "https://localhost:1"]
        ended = typed("status", host, *trust, "--memory", "none", "--timeout", "1")

    assert ended.exit_code == 3
    assert "timed out" in ended.stderr
