"""What libraries would import for themselves, and a process of Keyhouse does not."""

import subprocess
import sys

import pytest

CASES = [
    # a library, what it would import, what Keyhouse leaves out before it imports the library
    ("httpx", {"pygments", "rich"}, ("pygments",)),
    ("structlog", {"rich"}, ("rich",)),
]


def imported(library: str, *left_out: str) -> set[str]:
    program = (
        "import sys\n"
        "from keyhouse.base.process.left_out import leave_out\n"
        f"leave_out(*{left_out!r})\n"
        f"import {library}\n"
        "print(*(name for name, module in sys.modules.items() if module is not None))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, check=True, text=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(("library", "wanted", "left_out"), CASES)
def test_library_does_without_what_is_left_out(
    library: str, wanted: set[str], left_out: tuple[str, ...]
) -> None:
    assert library in imported(library, *left_out)
    assert not wanted & imported(library, *left_out)


@pytest.mark.parametrize(("library", "wanted"), [case[:2] for case in CASES])
def test_library_imports_it_otherwise(library: str, wanted: set[str]) -> None:
    """Where this fails the library has changed: leave out nothing more."""
    assert wanted <= imported(library)


SERVING = (
    "from keyhouse.server.process import serve; "
    "sys.exit(serve.main(['--platform', 'gramine', '--data-dir', '/nowhere']))"
)
COMMAND = (
    "sys.argv[1:] = ['status', 'localhost']; import keyhouse.cli\n"
    "try: keyhouse.cli.main()\n"
    "finally: import keyhouse.client.session"
)


@pytest.mark.parametrize(
    ("program", "library", "without"),
    [(SERVING, "structlog", {"rich"}), (COMMAND, "httpx", {"pygments", "rich"})],
)
def test_process_imports_the_library_without_them(
    program: str, library: str, without: set[str]
) -> None:
    report = (
        "import atexit, sys; atexit.register(lambda: print(*("
        "name for name, module in sys.modules.items() if module is not None))); "
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", report + program],
        capture_output=True,
        check=False,
        text=True,
        env={},
    )
    assert done.returncode in {1, 2}, done.stderr
    assert library in done.stdout.split()
    assert not without & set(done.stdout.split())
