"""The page on verifying a release detects a replaced wheel, a changed SBOM and measurement."""

import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from support.host.release import installed, make_release
from support.process.command import run
from support.process.page import walk

from keyhouse.base.version import VERSION
from keyhouse.cli.release.sums import SUMS

_PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "verify-a-release.md"

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a release, its public key, and an installation."""
    place = tmp_path_factory.mktemp("made")
    installed(place, make_release(place))
    return place


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    for name in ("release", "packages"):
        shutil.copytree(made / name, tmp_path / name)
    shutil.copy(made / "keyhouse.vkey", tmp_path)
    return tmp_path


def _verify(place: Path, *more: str) -> tuple[int, str]:
    files = str(place / "release" / SUMS)
    key = str(place / "keyhouse.vkey")
    ended = run("version", "--verify", files, "--release-key", key, *more)
    return ended.code, ended.out + ended.err


def test_every_command_of_the_page_works(place: Path) -> None:
    page = _PAGE.read_text(encoding="utf-8")
    page = page.replace("scripts/setup development && ", f"PYTHON={sys.executable} ")
    printed = walk(page.replace("X.Y.Z", VERSION), place)
    assert f"version {VERSION}, signed by test" in printed
    assert "no further file of Keyhouse" in printed
    assert "FAILED" not in printed
    assert "Signature Verified Successfully" in printed
    assert f"keyhouse release v1\nversion {VERSION}\n" in printed
    assert len(list((place / "rebuilt").glob("*.whl"))) == 5


def test_a_replaced_wheel_is_detected(place: Path) -> None:
    (wheel,) = place.glob("release/keyhouse_base-*.whl")
    with ZipFile(wheel, "a") as archive:
        archive.writestr("keyhouse/added.py", "")
    code, printed = _verify(place)
    assert code == 1
    assert f"FAILED  {wheel}: has the sum" in printed
    shown = subprocess.run(
        ["sha256sum", "-c", SUMS], cwd=wheel.parent, capture_output=True, check=False
    )
    assert f"{wheel.name}: FAILED" in shown.stdout.decode()


@pytest.mark.parametrize("pattern", ["*.cdx.json", "*.measurement.json"])
def test_a_changed_description_is_detected(pattern: str, place: Path) -> None:
    (file,) = (place / "release").glob(pattern)
    file.write_text(file.read_text("utf-8").replace("1.6", "1.7").replace("null", '"00"'), "utf-8")
    code, printed = _verify(place)
    assert code == 1
    assert f"FAILED  {file}: has the sum" in printed


def test_new_sums_of_a_changed_file_are_not_signed(place: Path) -> None:
    (file,) = place.glob("release/*.measurement.json")
    file.write_text("{}\n", encoding="utf-8")
    with (place / "release" / SUMS).open("wb") as sums:
        names = sorted(path.name for path in file.parent.iterdir())
        names = [name for name in names if not name.startswith(SUMS)]
        words = ["sha256sum", *names]
        sums.write(subprocess.run(words, cwd=file.parent, check=True, capture_output=True).stdout)
    code, printed = _verify(place)
    assert code == 1
    assert "SHA256SUMS differs from the signed sums" in printed


def test_a_further_wheel_in_the_folder_is_detected(place: Path) -> None:
    (wheel,) = place.glob("release/keyhouse_base-*.whl")
    further = wheel.with_name("keyhouse_base-9.9.9-py3-none-any.whl")
    shutil.copy(wheel, further)
    code, printed = _verify(place)
    assert code == 1
    assert f"FAILED  {further}: is not in SHA256SUMS" in printed


def test_a_changed_and_an_added_module_of_an_environment_are_detected(place: Path) -> None:
    packages = place / "packages"
    changed = packages / "keyhouse" / "server" / "__main__.py"
    changed.write_text("print('another program')\n", encoding="utf-8")
    added = packages / "keyhouse" / "further.pyc"
    added.write_bytes(b"")
    code, printed = _verify(place, "--environment", str(packages))
    assert code == 1
    assert f"FAILED  {packages}" in printed
    assert f"{changed} differs from keyhouse_coordinator-{VERSION}" in printed
    assert f"{added} belongs to no wheel of the release" in printed


def test_a_missing_signature_or_key_is_refused(place: Path) -> None:
    sums = str(place / "release" / SUMS)
    assert run("version", "--verify", sums).code == 2
    (place / "release" / f"{SUMS}.note").unlink()
    code, printed = _verify(place)
    assert code == 1
    assert "SHA256SUMS.note cannot be read" in printed
    # An empty variable of a script must not switch the verification off.
    for words in (["--release-key", ""], ["--without-signature", "--environment", ""]):
        assert run("version", "--verify", sums, *words).code != 0
    unsigned = run("version", "--verify", sums, "--without-signature")
    assert unsigned.code == 0
    assert unsigned.out.endswith(
        "The signature is NOT verified: these checks also pass for forged files.\n"
    )


def test_an_older_signed_release_is_detected(place: Path) -> None:
    assert _verify(place, "--expect-version", VERSION)[0] == 0
    code, printed = _verify(place, "--expect-version", "9.9.9")
    assert code == 1
    assert f"version {VERSION}, signed by test; expected 9.9.9" in printed
    sums = str(place / "release" / SUMS)
    words = ("--verify", sums, "--without-signature", "--expect-version", VERSION)
    assert run("version", *words).code == 2
    assert run("version", "--expect-version", VERSION).code == 2


def test_a_name_without_a_file_cannot_be_read(place: Path) -> None:
    file = place / "release" / "absent.whl"
    ended = run("version", "--verify", str(file), "--release-key", str(place / "keyhouse.vkey"))
    assert ended.code == 1
    assert f"{file}: cannot be read; SHA256SUMS does not list it" in ended.out
