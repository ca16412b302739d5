"""What libraries would import for themselves, and a process of Keyhouse does not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

CASES = [
    # a library, what it would import, what Keyhouse leaves out before it imports the library
    ("httpx", {"pygments", "rich"}, ("pygments",)),
    ("httpcore", {"h2"}, ("h2",)),
]


def imported(library: str, *left_out: str) -> set[str]:
    program = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({left_out!r}))\n"
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
    "sys.argv[1:] = ['status', 'localhost:1', '--attestation', 'a.json', '--memory', 'none',"
    " '--pccs', 'https://localhost:1']; import keyhouse.cli; keyhouse.cli.main()"
)


@pytest.mark.parametrize(
    ("program", "library", "without"),
    [
        (SERVING, "uvloop", {"click"}),
        (COMMAND, "httpcore", {"h2", "pygments", "rich"}),
    ],
)
def test_process_imports_the_library_without_them(
    program: str, library: str, without: set[str], tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"UniqueID": "00" * 32}))
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
        cwd=tmp_path,
    )
    assert done.returncode in {1, 3}, done.stderr
    assert library in done.stdout.split()
    assert not without & set(done.stdout.split())
