"""A development coordinator, as `keyhouse dev` runs it."""

import json
import os
import re
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from support.process.page import walk
from support.process.server import PATIENCE
from support.process.start import Started, start

__all__ = ["dev", "walk_with_dev"]

_STARTS: Final = re.compile(r"^```sh\nkeyhouse dev(.*)\n```$", re.MULTILINE)
_ANY_PORTS: Final = ("--client-port", "0", "--workload-port", "0")


@contextmanager
def dev(folder: Path, *words: str) -> Iterator[tuple[Started, dict[str, Any]]]:
    """Run `keyhouse dev` in ``folder``, also its home; yield the process and the first message."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as said, (folder / "errors").open("wb") as errors:
        with os.fdopen(writing, "wb") as output:
            process = start(
                ("dev", "--json", *_ANY_PORTS, *words),
                output=output,
                errors=errors,
                environment={"TMPDIR": str(folder), "HOME": str(folder)},
                folder=folder,
            )
        try:
            yield process, json.loads(said.readline() or b"{}")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


def walk_with_dev(page: str, folder: Path) -> str:
    """Walk ``page``, which starts `keyhouse dev` once; return the output of all other commands.

    The commands before the block with `keyhouse dev` run first. Free ports replace the
    ports of the page.
    """
    before, words, after = _STARTS.split(page)
    printed = walk(before, folder)
    with dev(folder, *shlex.split(words)) as (_, ready):
        after = after.replace("127.0.0.1:4433", ready["clientApi"])
        return printed + walk(after.replace("127.0.0.1:2001", ready["workloadApi"]), folder)
