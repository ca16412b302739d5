"""Omniwitness, an independent witness: built once from the Go proxy, and run as a process."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from keyhouse.transparency.keys import VerifierKey
from support.process.server import free_port, listens
from support.process.tool import built_by_proxy

__all__ = ["Omniwitness", "programs"]

_HERE: Final = Path(__file__).parent
_MODULE: Final = "github.com/transparency-dev/witness/cmd"


def programs() -> Path:
    """Return the folder with ``omniwitness`` and ``generate_keys``.

    The folder is in the user's cache, because the build uses 90 s of processor time. Without Go, or
    without the sources in its proxy, the test is skipped; a build server must have Go.
    """
    return built_by_proxy(_HERE, [f"{_MODULE}/{name}" for name in ("omniwitness", "generate_keys")])


class Omniwitness(NamedTuple):
    """A witness with its own key and database, which persist between its runs."""

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
        """Cosign the log with the verifier key ``log`` until the context ends."""
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
            process.kill()  # the database preserves all cosigned checkpoints
            process.wait()
