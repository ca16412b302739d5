"""Walks a page of the documentation: saves its programs, and runs its commands."""

import re
import subprocess
from pathlib import Path
from typing import Final

from support.process.start import on_path

__all__ = ["walk"]

_PROGRAM: Final = re.compile(
    r"Save this as `([a-z_]+\.py)`[^`]*?```python\n(.*?)^```$", re.DOTALL | re.MULTILINE
)
_COMMANDS: Final = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LEFT_OUT: Final = ("scripts/setup", "keyhouse serve", "keyhouse dev")  # done by the test


def walk(page: str, folder: Path) -> str:
    """Run all blocks of ``page`` in one shell that stops at the first failure; return the output.

    The output includes standard error, in the order of a terminal. RSA keys have the smallest
    permitted size, because the primes of larger keys take seconds.
    """
    page = page.replace("rsa_keygen_bits:3072", "rsa_keygen_bits:2048")
    for file, program in _PROGRAM.findall(page):
        (folder / file).write_text(program, encoding="utf-8")
    blocks = [block for block in _COMMANDS.findall(page) if not block.startswith(_LEFT_OUT)]
    with on_path() as path:
        done = subprocess.run(
            ["bash", "-ec", "exec 2>&1\n" + "".join(blocks)],
            cwd=folder,
            env={"PATH": path, "HOME": str(folder)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout
