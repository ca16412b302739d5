"""Launching a workload, renewing its certificate, and an overlap do what the pages say."""

import os
import re
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from support.process.dev import walk_with_dev
from support.process.server import free_port
from support.process.tool import tool

_PAGES = Path(__file__).parent.parent.parent / "docs/how-to"
_PAGE = _PAGES / "launch-a-workload.md"
_RENEWALS = _PAGES / "renew-while-running.md"
_ROTATION = _PAGES / "rotate-certificates.md"

pytestmark = pytest.mark.acceptance


def test_every_command_of_the_page_works(tmp_path: Path) -> None:
    printed = walk_with_dev(_PAGE.read_text(encoding="utf-8"), tmp_path)

    assert "a token of 128 bits and a TLS identity for web.example.com" in printed
    assert re.search(r"-rw------- .* tls\.key", printed)
    assert "token: 32 digits" in printed
    assert 'no marble type "db"' in printed
    assert printed.endswith("exit code 1\n")
    assert "NOT verified" not in printed


def test_every_command_of_the_page_about_renewals_works(tmp_path: Path) -> None:
    """The certificate changes every five seconds instead of every minute."""
    if not Path("/usr/sbin/nginx").exists():
        tool("nginx")
    page = _RENEWALS.read_text(encoding="utf-8")
    page = page.replace("--renew-every 60", "--renew-every 5").replace("8443", str(free_port()))
    try:
        printed = walk_with_dev(page, tmp_path)
    finally:  # a page that fails halfway leaves the launcher, which ends with its program
        with suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int((tmp_path / "tmp/nginx.pid").read_text()), signal.SIGTERM)
    assert "3 certificates, 0 failed requests" in printed
    assert printed.count("keyhouse run: renewed: certificate until 2") == 2
    assert printed.endswith("nginx has ended in order\n")


def test_every_command_of_the_page_about_rotation_works(tmp_path: Path) -> None:
    """Only an update of nothing but the hours keeps the former root in the list."""
    printed = walk_with_dev(_ROTATION.read_text(encoding="utf-8"), tmp_path)
    effects = re.findall(r"workloads trust (?:no former|the present) marble root[^:;\n]*", printed)
    assert [effect.split(" marble root")[0] for effect in effects] == [
        "workloads trust no former",
        "workloads trust the present",
        "workloads trust no former",
    ]
    lists = [part.split("state ")[0] for part in printed.split("SHA-256  ")[1:]]
    roots = [re.findall(r"(?m)^([0-9a-f]{64})  (in force|2\S+Z)$", part) for part in lists]
    assert [[end == "in force" for _, end in each] for each in roots] == [[True, False], [True]]
    assert roots[1][0][0] not in {root for root, _ in roots[0]}
