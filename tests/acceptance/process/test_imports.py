"""What is imported until the first answer: a start is mostly imports, so each one has a reason."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.process.server import Server

pytestmark = pytest.mark.acceptance

_FIRST = (
    "import sys; sys.argv = ['keyhouse', 'serve', '--help']; from keyhouse.cli import main; main()"
)

# What is imported from the packed file at once is in no report.
_UNPACKED = (
    "from keyhouse.base.process import packed_code; packed_code.use_packed_code = lambda _: None; "
    "from keyhouse.cli import main; main()"
)

# HTTP/2 and protobuf wait for the first workload, what prepares changes for a second; all else is
# for people, clients or metrics.
_NOT_NEEDED = (
    *("h2", "hpack", "google", "keyhouse.server.grpc.connection", "keyhouse.wire.marble_pb2"),
    *("click", "yaml", "httpx", "httpcore", "grpclib", "prometheus_client"),
    *("keyhouse.client", "keyhouse.launcher", "keyhouse.cli.commands", "keyhouse.manifest.source"),
    *("keyhouse.attestation.collateral.pccs", "keyhouse.server.metrics", "keyhouse.testing"),
    "keyhouse.journal.offline",
    *("keyhouse.coordinator.prepare", "keyhouse.coordinator.update", "keyhouse.wire.plan"),
    *("keyhouse.manifest.check", "keyhouse.manifest.rules", "keyhouse.authority.secrets"),
    *("argparse", "difflib", "shutil", "tempfile"),
)


def _imported(report: str) -> set[str]:
    return set(re.findall(r"^import time: .*\| +([\w.]+)$", report, re.MULTILINE))


def test_process_that_is_to_be_replaced_has_imported_next_to_nothing() -> None:
    # The variable needs a second start, which does not have -X importtime.
    words = [sys.executable, "-S", "-X", "importtime", "-c", _FIRST]
    ended = subprocess.run(
        words,
        env={"OF_ANOTHER_PROGRAM": "", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    found = _imported(ended.stderr)
    assert {name for name in found if name.startswith("keyhouse")} == {
        *("keyhouse", "keyhouse.base", "keyhouse.base.lazy_imports", "keyhouse.base.version"),
        *("keyhouse.base.process", "keyhouse.base.process.isolation", "keyhouse.cli"),
        *("keyhouse.server", "keyhouse.server.__main__"),
    }
    assert not found & {"typing", "re", "collections", "contextlib", "enum", "functools"}


def test_start_imports_nothing_that_only_later_calls_need(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", cold=True)
    words = server._command[1:]
    server._command = [sys.executable, "-I", "-B", "-X", "importtime", "-c", _UNPACKED, *words]
    with server, server.client() as anyone:
        assert anyone.get("/api/v2/status").status == 200
        found = _imported(server.logged())
        assert "keyhouse.server.client_api.answers" in found  # it has reported
        assert not {
            name
            for name in found
            if any(name == each or name.startswith(f"{each}.") for each in _NOT_NEEDED)
        }


def test_start_takes_its_code_from_the_packed_file(tmp_path: Path) -> None:
    # As scripts/setup does; a module that was changed since is not taken from the file.
    pack = [sys.executable, "-I", "-m", "keyhouse.base.process.pack_code", "serve"]
    subprocess.run(pack, env={}, timeout=60, check=True)
    server = Server(tmp_path / "data", cold=True)
    words = server._command[2:]
    server._command = [sys.executable, "-I", "-B", "-v", "-m", "keyhouse.server", *words]
    with server, server.client() as anyone:
        assert anyone.get("/api/v2/status").status == 200
        report = server.logged()
    loaders = dict(re.findall(r"^import '([\w.]+)' # <(?:[\w.]+\.)?(\w+)", report, re.MULTILINE))
    packed = {name for name, loader in loaders.items() if loader == "_PackedLoader"}
    serving = {"keyhouse.server.process.serve", "keyhouse.server.process.serving"}
    assert {"asyncio", "typing"} | serving <= packed
    left = {name for name, loader in loaders.items() if loader == "SourceFileLoader"}
    assert len(left) < 30, sorted(left)  # before the file is open, and what a first start makes


_LAUNCHED = (
    "import sys; from keyhouse.base.process import packed_code; "
    "packed_code.use_packed_code = lambda _: None; "
    "from keyhouse.launcher.__main__ import main; main(sys.argv[1:])"
)


# httpx imports click where click is installed, for a command of its own.
def test_launcher_explains_an_attestation_file_without_the_commands_for_people(
    tmp_path: Path,
) -> None:
    attestation = tmp_path / "attestation.json"
    attestation.write_text('{"UniqueID": 1}')
    root = tmp_path / "root.pem"
    root.write_text("")
    ended = subprocess.run(
        [
            *(sys.executable, "-I", "-B", "-X", "importtime", "-c", _LAUNCHED),
            *("--type", "web", "--timeout", "50", "--coordinator", "127.0.0.1:1"),
            *("--attestation", str(attestation), "--simulation-root", str(root)),
            *("--uuid-file", str(tmp_path / "uuid"), "--", "/bin/true"),
        ],
        env={},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert f"error: {attestation}: UniqueID" in ended.stderr
    found = _imported(ended.stderr)
    assert "keyhouse.client.trust" in found
    assert not {
        name
        for name in found
        if re.match(r"(yaml|keyhouse\.(cli|server|manifest|journal|views))(\.|$)", name)
    }
