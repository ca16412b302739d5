"""Renewing certificates while nginx runs does what the page says."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from support.process.dev import walk_with_dev
from support.process.server import free_port
from support.process.tool import tool

_PAGE = Path(__file__).parent.parent.parent / "docs/how-to/renew-while-running.md"

pytestmark = pytest.mark.acceptance


def test_every_command_of_the_page_works(tmp_path: Path) -> None:
    """The certificate changes every five seconds instead of every minute."""
    if not Path("/usr/sbin/nginx").exists():
        tool("nginx")
    page = _PAGE.read_text(encoding="utf-8")
    page = page.replace("--renew-every 60", "--renew-every 5").replace("8443", str(free_port()))
    try:
        printed = walk_with_dev(page, tmp_path)
    finally:  # a page that fails halfway leaves the launcher, which ends with its program
        with suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int((tmp_path / "tmp/nginx.pid").read_text()), signal.SIGTERM)
    assert "3 certificates, 0 failed requests" in printed
    assert printed.count("keyhouse run: renewed: certificate until 2") == 2
    assert printed.endswith("nginx has ended in order\n")
