"""A development coordinator, as `keyhouse dev` runs it."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from support.process.start import Started, start

__all__ = ["dev"]

_ANY_PORTS: Final = ("--client-port", "0", "--workload-port", "0")


@contextmanager
def dev(folder: Path, *words: str) -> Iterator[tuple[Started, dict[str, Any]]]:
    """Run `keyhouse dev` in ``folder``, which is its home, too; yield what it says when ready."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as said, (folder / "errors").open("wb") as errors:
        with os.fdopen(writing, "wb") as output:
            process = start(
                ("dev", "--json", *_ANY_PORTS, *words),
                output=output,
                errors=errors,
                environment={"TMPDIR": str(folder), "HOME": str(folder)},
                folder=folder,
                cold=True,
            )
        try:
            yield process, json.loads(said.readline() or b"{}")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
