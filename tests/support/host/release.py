"""A small release for tests: wheels, sources, an SBOM, a measurement, sums and their signature."""

import shutil
import sys
from pathlib import Path
from typing import Final
from zipfile import ZipFile

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from releasing.build import Build, Inputs
from releasing.measurement import Enclave, write_measurement
from releasing.provenance import write_provenance
from releasing.sign import sign_sums, write_sums
from releasing.surroundings import BOTH

from keyhouse.base.version import BUILD_TIME, VERSION
from support.distributions import ROOT

__all__ = ["KEY", "TREE", "build_in", "copy_tree", "installed", "make_release", "write_key"]

TREE: Final = (
    *("CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml"),
    *("deploy", "locks", "scripts", "simulation", "src"),
)
KEY: Final = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


def copy_tree(place: Path) -> Path:
    """Copy the built files of this tree to ``place``; return ``place``."""
    place.mkdir()
    for name in TREE:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
            )
        else:
            shutil.copy(ROOT / name, place / name)
    return place


def build_in(number: int, tree: Path, work: Path) -> Build:
    """Return a build in the surroundings ``number``, still without outputs."""
    around = BOTH[number]
    copied = around.copy(tree, work)
    folder = copied.parent / "outputs"
    folder.mkdir()
    inputs = Inputs(VERSION, BUILD_TIME // 1_000_000, Path(sys.executable))
    return Build(copied, folder, around, inputs)


def make_release(place: Path) -> Path:
    """Make a small release in ``place`` with ``keyhouse.vkey``; return its folder ``release``."""
    build = build_in(0, copy_tree(place / "tree"), place / "work")
    build.wheels_and_sources()
    sbom = build.folder / f"keyhouse-coordinator-{VERSION}.cdx.json"
    sbom.write_text('{"bomFormat":"CycloneDX","specVersion":"1.6"}\n', encoding="utf-8")
    write_measurement(build, "0" * 40, Enclave(None, 1), None, "a test signs no enclave")
    write_provenance(build, "0" * 40, "")
    folder = place / "release"
    shutil.move(build.folder, folder)
    write_sums(folder)
    verifier = sign_sums(folder, VERSION, KEY, "test")
    (place / "keyhouse.vkey").write_text(f"{verifier}\n", encoding="utf-8")
    return folder


def write_key(file: Path) -> None:
    """Write the private key in the format of the option ``--key``."""
    encoded = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(encoded)


def installed(folder: Path, wheels: Path) -> Path:
    """Unpack the ``wheels`` below ``folder``; return the folder ``packages``."""
    packages = folder / "packages"
    for wheel in sorted(wheels.glob("*.whl")):
        with ZipFile(wheel) as archive:
            archive.extractall(packages)
    return packages
