"""Build the outputs of a release in given surroundings, and compare two builds."""

import filecmp
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from releasing.archive import write_archive
from releasing.surroundings import Surroundings

_RUNTIME: Final = Path(__file__).with_name("runtime.sh")
_SDIST: Final = "import sys; from flit_core import buildapi; buildapi.build_sdist(sys.argv[1])"


class Missing(NamedTuple):
    """An output that this machine did not make, and the reason."""

    output: str
    reason: str


class Inputs(NamedTuple):
    """The inputs of a build. ``time`` is the build time in s since 1970.

    ``python`` is a Python with flit_core. ``python_image`` names the base of the container image
    by digest. Without ``python_image``, the build makes no image.
    """

    version: str
    time: int
    python: Path
    python_image: str = ""


class Build(NamedTuple):
    """A build: its tree, the folder of its outputs, and its surroundings."""

    tree: Path
    folder: Path
    around: Surroundings
    inputs: Inputs

    def wheels_and_sources(self) -> None:
        """Build the wheels, the sdists of both trees, and the archive of all sources."""
        version, time = self.inputs.version, self.inputs.time
        write_archive(
            self.tree,
            f"keyhouse-{version}/",
            time,
            self.folder / f"keyhouse-{version}-source.tar.gz",
        )
        python = str(self.inputs.python)
        self.around.run(["scripts/build", self.folder], self.tree, PYTHON=python)
        for tree in (self.tree, self.tree / "simulation"):
            words = [python, "-I", "-c", _SDIST, self.folder]
            self.around.run(words, tree, SOURCE_DATE_EPOCH=str(time))

    def runtime(self) -> Path:
        """Make the runtime of the coordinator's enclave and an archive; return the runtime."""
        runtime = self.folder.parent / "runtime"
        words = ["sh", _RUNTIME, runtime, self.folder, self.folder.parent / "opt"]
        self.around.run(
            ["unshare", "--user", "--mount", "--map-root-user", *words],
            self.tree,
            DEB_PYTHON_INSTALL_LAYOUT="deb",
            PYTHONDONTWRITEBYTECODE="1",
        )
        version = self.inputs.version
        target = self.folder / f"keyhouse-{version}-gramine-runtime.tar.gz"
        write_archive(runtime, "opt/keyhouse/", self.inputs.time, target)
        return runtime

    def image(self, commit: str) -> str:
        """Build the container image and an archive; return the digest of the image's manifest.

        A label of the image contains ``commit``. A file beside the archive contains the image ID.
        """
        version, time = self.inputs.version, self.inputs.time
        name, _, base = self.inputs.python_image.partition("@")
        tag = f"keyhouse-release-{version}-{len(self.around.folder)}"
        place = self.folder.parent
        identity, layout = place / "image-id", place / "image"
        labels = {
            "version": version,
            "revision": commit,
            "created": datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "base.name": name,
            "base.digest": base,
        }
        self.around.run(
            [
                *("buildah", "build", "-q", "-f", "deploy/container/Dockerfile", "--no-cache"),
                *("--timestamp", str(time), "--iidfile", identity, "-t", tag),
                *("--build-arg", f"PYTHON_IMAGE={self.inputs.python_image}"),
                *("--build-arg", f"SOURCE_DATE_EPOCH={time}"),
                *(f"--label=org.opencontainers.image.{key}={text}" for key, text in labels.items()),
                ".",
            ],
            self.tree,
        )
        written = place / "image-digest"
        words = ["buildah", "push", "-q", "--digestfile", written, tag, f"oci:{layout}"]
        self.around.run(words, self.tree)
        self.around.run(["buildah", "rmi", tag], self.tree)
        output = self.folder / f"keyhouse-{version}"
        write_archive(layout, "", time, Path(f"{output}-image.tar"))
        found = identity.read_text(encoding="utf-8").strip()
        Path(f"{output}.image-id").write_text(f"{found}\n", encoding="utf-8")
        return written.read_text(encoding="utf-8").strip()


def image_hindrance() -> str:
    """Return the reason that this machine cannot build the image, or an empty text."""
    return "" if shutil.which("buildah") else "buildah is not installed"


def runtime_hindrance(version: tuple[int, int]) -> str:
    """Return the reason that this machine cannot make the runtime, or an empty text."""
    if not Path(f"/usr/lib/python{version[0]}.{version[1]}").is_dir():
        return f"Debian's Python {version[0]}.{version[1]} is not in /usr/lib"
    if not Path("/usr/lib/python3/dist-packages/pip").is_dir():
        return "python3-pip of Debian is not installed"
    if not shutil.which("unshare"):
        return "unshare (util-linux) is not installed"
    return ""


def differences(one: Path, other: Path) -> Iterator[str]:
    """Yield the names of files that differ between two folders, or that a folder lacks."""
    names = {
        path.relative_to(folder).as_posix()
        for folder in (one, other)
        for path in folder.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }
    for name in sorted(names):
        if not _equal(one / name, other / name):
            yield name


def _equal(one: Path, other: Path) -> bool:
    if one.is_symlink() or other.is_symlink():
        return one.is_symlink() and other.is_symlink() and one.readlink() == other.readlink()
    exist = one.exists() and other.exists()
    return exist and filecmp.cmp(one, other, shallow=False)


def require_equal(name: str, builds: tuple[Path, Path], report: Callable[[str], None]) -> None:
    """Raise ``RuntimeError`` if the builds in two folders differ in any bit."""
    found = list(differences(*builds))
    if found:
        raise RuntimeError(f"{name}: two builds differ in {', '.join(found[:5])}; compare {builds}")
    report(f"{name}: two builds are equal")
