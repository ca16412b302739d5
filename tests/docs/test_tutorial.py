"""The tutorial, typed as it is printed: three terminals, an empty home, a real coordinator."""

import os
import re
import shutil
from pathlib import Path
from typing import Final

import pytest
from support.process.server import free_port
from support.process.start import warm_python
from support.process.terminal import Terminal

_ROOT: Final = Path(__file__).parent.parent.parent
_PAGE: Final = _ROOT / "docs/tutorial/index.md"
_PORTS: Final = ("4433", "2001", "8443")
_STEP: Final = re.compile(
    r"in the \*\*(?P<terminal>first|second|third) terminal\*\*"
    r"|save this as\s`(?P<file>[a-z.]+)`.*?^```(?:python|yaml)\n(?P<content>.*?)^```$"
    r"|^```sh\n(?P<commands>.*?)^```$"
    r"|(?P<stop>press Ctrl-C)|(?P<end>with Ctrl-C)",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
_SETS_UP: Final = "scripts/setup runtime\n"  # the test's part: see its ``checkout``

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.skipif(
        "CI" not in os.environ and shutil.which("curl") is None, reason="curl is not installed"
    ),
]


def test_every_command_of_the_tutorial_works(tmp_path: Path) -> None:
    page = _PAGE.read_text(encoding="utf-8").replace(_SETS_UP, "")
    ports = {port: str(free_port()) for port in _PORTS}
    # In one go: a free port may have the digits of another port of the page.
    page = re.sub("|".join(_PORTS), lambda found: ports[found[0]], page)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    checkout = tmp_path / "checkout"
    warm_python(checkout / ".venv")
    with (
        Terminal(checkout, env) as first,
        Terminal(checkout, env) as second,
        Terminal(checkout, env) as third,
    ):
        terminals = {"first": first, "second": second, "third": third}
        current = first
        for step in _STEP.finditer(page):
            if step["terminal"]:
                current = terminals[step["terminal"]]
            elif step["file"]:
                (tmp_path / "keyhouse-tutorial" / step["file"]).write_text(step["content"])
            elif step["stop"]:
                first.stop()
            elif step["end"] and current is second:
                first.interrupt()
                third.interrupt()
            elif step["commands"]:
                current.type(step["commands"])

        shown = second.shown
        assert "value        hello\n" in shown
        assert 'the manifest has no secret "payroll"' in shown
        assert 'no permission ReadSecret on: "payroll"' in first.shown
        assert "ready to accept a manifest" in shown
        assert "did you mean ResourceNames?" in shown
        assert "the greeter says: Good morning\n" in shown
        assert len(re.findall(r"^curl: .*\nexit code [1-9]", shown, re.MULTILINE)) == 2
        assert re.search("does not admit the workload: UniqueID.*\n.*\nexit code 1\n", shown)
        assert "Secret set  user=alice  secret=greeting" in shown
        assert "never printed" not in shown
    assert list(tmp_path.glob("keyhouse-tutorial*")) == []
