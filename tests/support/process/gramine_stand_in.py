"""Replaces ``keyhouse serve``: the same arguments and variables, under ``gramine-direct``.

With ``KEYHOUSE_TESTS_GRAMINE=DIR``, the tests start every coordinator here. DIR gets a runtime,
unless it has a runtime of the present sources. The coordinator can open all files of the host
except ``/dev``, because tests name files anywhere. So neither DIR nor temporary files may be below
``/dev/shm``.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from keyhouse.client.file_lock import locked
from support.process import start
from support.process.gramine import libraries, make_runtime, render, sources

__all__ = ["serve"]

_MANIFEST: Final = """
loader.entrypoint.uri = "file:{{ gramine.libos }}"
loader.log_level = "error"
fs.root = { type = "chroot", uri = "file:/" }
fs.mounts = [{ path = "/lib", uri = "file:{{ gramine.runtimedir() }}" }]
sys.stack.size = "2M"
sys.enable_sigterm_injection = true
sys.disallow_subprocesses = true
sys.experimental__enable_flock = true
sgx.file_check_policy = "allow_all_but_log"
"""


def serve(
    arguments: Sequence[str],
    *,
    stdin: IO[bytes] | int,
    errors: IO[bytes],
    environment: Mapping[str, str],
    folder: Path,
) -> "subprocess.Popen[bytes]":
    """Start ``keyhouse`` with ``arguments``; the first argument is ``serve``.

    Gramine writes standard error to standard output, so both streams are ``errors``.
    """
    runtime = _runtime(Path(start.GRAMINE))
    place = Path(tempfile.mkdtemp(prefix="enclave-", dir=start.GRAMINE))
    python = str(runtime / "bin" / "python3")
    words = [python, "-I", "-B", "-m", "keyhouse.server", *arguments[1:]]
    fixed = {
        "KEYHOUSE_ISOLATED": "measured",
        "LD_LIBRARY_PATH": f"/lib:{libraries(runtime)}",
        "MALLOC_ARENA_MAX": "1",
    }
    text = _MANIFEST + "\n".join(
        [
            f"libos.entrypoint = {json.dumps(python)}",
            f"loader.argv = {json.dumps(words)}",
            f"fs.start_dir = {json.dumps(str(folder.absolute()))}",
            "[loader.env]",
            *(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in (dict(environment) | fixed).items()),
        ]
    )
    render(place, text, {})
    return subprocess.Popen(
        ["gramine-direct", str(place / "keyhouse")],
        stdin=stdin,
        stdout=errors,
        stderr=errors,
        env={"PATH": os.environ["PATH"]},
        cwd=folder,
    )


def _runtime(place: Path) -> Path:
    place.mkdir(mode=0o700, exist_ok=True)
    done = place / "done"
    with locked(place / "runtime"):
        if not done.exists() or done.read_text("ascii") != sources():
            shutil.rmtree(place / "runtime", ignore_errors=True)
            shutil.rmtree(place / "libraries", ignore_errors=True)
            make_runtime(place)
            done.write_text(sources(), "ascii")
    return place / "runtime"
