"""Each distribution works alone: in a fresh environment with its wheels and its lock."""

import json
import subprocess
import urllib.request
from pathlib import Path
from zipfile import ZipFile

import pytest
from support.installed import build_wheels, install, packages
from support.process.launcher import launch
from support.process.server import PATIENCE, Server, free_port
from support.samples.deployment import user
from support.samples.updates import Api, Document, together

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheels of this tree."""
    return build_wheels(tmp_path_factory.mktemp("wheels"))


def _add_platform(folder: Path, wheels: dict[str, Path]) -> None:
    """Add the simulated platform alone, which stands for the hardware."""
    with ZipFile(wheels["keyhouse-simulation"]) as archive:
        platform = [each for each in archive.namelist() if each.startswith("keyhouse_simulation/")]
        archive.extractall(packages(folder), platform)


def test_equal_sources_give_equal_wheels(wheels: dict[str, Path], tmp_path: Path) -> None:
    again = build_wheels(tmp_path)
    assert {name: path.read_bytes() for name, path in again.items()} == {
        name: path.read_bytes() for name, path in wheels.items()
    }


def test_the_coordinator_serves_without_any_other_distribution(
    wheels: dict[str, Path], tmp_path: Path
) -> None:
    python = install(tmp_path / "environment", "keyhouse-coordinator", wheels)
    _add_platform(tmp_path / "environment", wheels)
    metrics = free_port()
    server = Server(tmp_path / "data", arguments=("--metrics-addr", f"127.0.0.1:{metrics}"))
    server._command = [str(python), "-I", "-B", "-m", "keyhouse.server", *server._command[2:]]

    def add_web(document: Document) -> None:
        machine = server.data / "simulation" / "attestation.json"
        identity = json.loads(machine.read_text(encoding="utf-8"))["UniqueID"]
        document["Packages"]["web"] = {"UniqueID": identity}
        document["Marbles"]["web"] = {
            "Package": "web",
            "Parameters": {"Env": {"NOTE": "{{ string .Secrets.note }}"}},
        }

    with server:
        with server.client() as anyone:
            assert anyone.set_manifest(together(add_web)).status == 200
            chain = tmp_path / "chain.pem"
            chain.write_text(anyone.get("/api/v2/quote").data["cert"])
            assert "/secrets" in anyone.get("/api/v2/openapi.json").body.decode()
        with server.client(user("writer")) as writer:
            assert writer.upload({"note": b"of the writer"}).status == 200
        ended = launch(
            server.mesh_port,
            *("--platform", "simulation", "--simulated-machine", str(server.data)),
            *("--root-certificate", str(chain), "--", "/bin/sh", "-c", 'echo "$NOTE"'),
            folder=tmp_path,
        )
        assert (ended.code, ended.out) == (0, "of the writer\n"), ended.err
        after = together(add_web, word="after")
        with server.client(user("alice")) as alice, server.client(user("bob")) as bob:
            assert Api(2).update(alice, after).status == 200
            assert Api(2).acknowledge(bob, after).status == 200
            assert bob.get("/manifest").status == 200
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=PATIENCE) as got:
            assert b"keyhouse_" in got.read()


def test_the_launcher_joins_without_any_other_distribution(
    wheels: dict[str, Path], tmp_path: Path
) -> None:
    python = install(tmp_path / "environment", "keyhouse-launcher", wheels)
    with Server(tmp_path / "data") as server:
        with server.client() as anyone:
            assert anyone.set_manifest(together(word="app")).status == 200
        machine = server.data / "simulation"
        ended = subprocess.run(
            [
                *(str(python), "-I", "-B", "-m", "keyhouse.launcher", "--type", "app"),
                *("--coordinator", f"127.0.0.1:{server.mesh_port}"),
                *("--client-api", f"127.0.0.1:{server.port}"),
                *("--attestation", str(machine / "attestation.json")),
                *("--simulation-root", str(machine / "root.pem")),
                *("--uuid-file", str(tmp_path / "uuid"), "--", "/bin/true"),
            ],
            env={},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr


def test_people_have_every_command(wheels: dict[str, Path], tmp_path: Path) -> None:
    python = install(tmp_path / "environment", "keyhouse", wheels)
    manifest = tmp_path / "manifest.json"
    manifest.write_bytes(together())
    for words in (["version"], ["manifest", "check", str(manifest)], ["run", "--help"]):
        subprocess.run(
            [str(python), "-I", "-m", "keyhouse.cli", *words],
            env={},
            capture_output=True,
            timeout=PATIENCE,
            check=True,
        )


@pytest.mark.parametrize("name", ["keyhouse-coordinator", "keyhouse-launcher"])
def test_an_enclave_has_no_module_for_people(
    name: str, wheels: dict[str, Path], tmp_path: Path
) -> None:
    install(tmp_path / "environment", name, wheels)
    library = packages(tmp_path / "environment")
    found = {path.name for path in (*library.iterdir(), *(library / "keyhouse").iterdir())}
    assert not found & {"cli", "console", "evidence", "views", "testing"}
    assert not found & {"click", "flit_core", "jinja2", "keyhouse_simulation", "pip", "yaml"}
