"""Omniwitness, a witness of others: built from the Go proxy once, and run as processes."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from keyhouse.transparency.keys import VerifierKey
from support.process.server import free_port, listens
from support.process.tool import tool

__all__ = ["Omniwitness", "programs"]

_HERE: Final = Path(__file__).parent
_MODULE: Final = "github.com/transparency-dev/witness/cmd"
_BUILT_WITHIN: Final = 280


def programs() -> Path:
    """Return the folder with ``omniwitness`` and ``generate_keys``.

    It is in the user's cache: to build them takes 90 s of processor time. Without Go, or where its
    proxy does not have the sources, the test is skipped; a build server has to have Go.
    """
    go, sums = tool("go"), (_HERE / "go.sum").read_bytes() + (_HERE / "go.mod").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "keyhouse-tests"
    built = cache / f"omniwitness-{hashlib.sha256(sums).hexdigest()[:16]}"
    if not built.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            _build(go, Path(folder))
            with suppress(OSError):  # another worker was first
                Path(folder, "bin").rename(built)
    return built


def _build(go: str, folder: Path) -> None:
    for name in ("go.mod", "go.sum"):
        shutil.copy(_HERE / name, folder / name)
    (folder / "bin").mkdir()
    settings = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
    places = [f"{_MODULE}/{name}" for name in ("omniwitness", "generate_keys")]
    ended = subprocess.run(
        ["nice", "-n", "10", go, "build", "-o", f"{folder / 'bin'}/", *places],
        cwd=folder, env={**os.environ, **settings}, timeout=_BUILT_WITHIN, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    if ended.returncode:
        pytest.skip(f"omniwitness could not be built: {ended.stderr[-500:]}")


class Omniwitness(NamedTuple):
    """A witness with a key and a database of its own, which are kept while it does not run."""

    folder: Path
    key: VerifierKey
    port: int

    @classmethod
    def made(cls, name: str, folder: Path) -> "Omniwitness":
        folder.mkdir()
        made = ("--out_priv", str(folder / "private"), "--out_pub", str(folder / "public"))
        subprocess.run([programs() / "generate_keys", "--origin", name, *made], check=True)
        key = VerifierKey.read((folder / "public").read_text().strip())
        return cls(folder, key, free_port())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextmanager
    def running(self, log: str) -> Iterator[None]:
        """Have it cosign for the log with this verifier key until the context ends."""
        origin = log.partition("+")[0]
        logs = self.folder / "logs.yaml"
        logs.write_text(
            f"Logs:\n  - Origin: {origin}\n    PublicKey: {log}\n    URL: http://127.0.0.1:9/none\n"
        )
        with (self.folder / "log").open("ab") as printed:
            flags = {
                "--listen": f"127.0.0.1:{self.port}",
                "--metrics_listen": "",
                "--private_key_path": str(self.folder / "private"),
                "--db_file": str(self.folder / "witness.db"),
                "--additional_logs": str(logs),
            }
            words = [word for flag in flags.items() for word in flag]
            command = [str(programs() / "omniwitness"), *words]
            process = subprocess.Popen(command, stdout=printed, stderr=printed)
        try:
            while not listens(self.port):
                assert process.poll() is None, (self.folder / "log").read_text()
            yield
        finally:
            process.kill()  # what it has promised outlives that
            process.wait()
