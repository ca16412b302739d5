"""Make every output of a release that this machine can make, and list the missing outputs."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from keyhouse.cli.release.sums import BUNDLE, NOTE
from releasing.build import Build, Inputs, Missing, require_equal, runtime_hindrance
from releasing.clone import Prepared
from releasing.measurement import Enclave, sign_enclave, write_measurement
from releasing.notes import write_notes
from releasing.sbom import write_sboms
from releasing.sign import read_key, sign_sums, sign_with_sigstore, write_sums
from releasing.surroundings import BOTH

Report = Callable[[str], None]


class Signing(NamedTuple):
    """The signatures over the sums: a key with its name, and whether to use Sigstore."""

    key: Path | None
    name: str
    sigstore: bool


class Outputs(NamedTuple):
    """The outputs of the tree ``made`` in ``folder``. ``tools`` has the packages of the lock."""

    made: Prepared
    inputs: Inputs
    work: Path
    folder: Path
    tools: Path
    report: Report

    def build(self, enclave: Enclave) -> list[Missing]:
        """Build everything in both surroundings, compare, and copy the outputs; return the rest."""
        missing = []
        hindrance = runtime_hindrance((sys.version_info[0], sys.version_info[1]))
        if hindrance:
            missing.append(Missing("Gramine runtime", hindrance))
        without_image = self._image_hindrance()
        if without_image:
            missing.append(Missing("container image", without_image))
        builds, runtimes, images = [], [], []
        for around in BOTH:
            tree = around.copy(self.made.tree, self.work)
            build = Build(tree, tree.parent / "outputs", around, self.inputs)
            build.folder.mkdir()
            build.wheels_and_sources()
            write_sboms(build, self.tools)
            self.report(f"built wheels, sources and SBOMs in {around.folder!r}")
            if not hindrance:
                runtimes.append(build.runtime())
                self.report("built the Gramine runtime")
            if not without_image:
                images.append(build.image())
                self.report(f"built the image {images[-1]}")
            builds.append(build)
        first, second = builds
        if runtimes:
            require_equal("files of the runtime", (runtimes[0], runtimes[1]), self.report)
        if len(set(images)) > 1:
            raise RuntimeError(f"two builds of the image have the ids {' and '.join(images)}")
        signed, reason = sign_enclave(first, runtimes[0] if runtimes else None, enclave)
        for build in builds:
            absent = write_measurement(build, self.made.commit, signed, reason)
            missing += absent if build is first else []
        require_equal("outputs", (first.folder, second.folder), self.report)
        self._check_descriptions(first)
        shutil.copytree(first.folder, self.folder, dirs_exist_ok=True)
        if images:
            self._copy_image(first, images[0])
        return missing

    def finish(self, missing: list[Missing], signing: Signing, *, dry: bool) -> list[Missing]:
        """Write the notes and the sums, and sign the sums; return every missing output."""
        if dry:
            missing = [*missing, Missing(f"signature ({NOTE})", "a dry run does not sign")]
        elif signing.key is None:
            missing = [*missing, Missing(f"signature ({NOTE})", "--key names no key")]
        version = self.inputs.version
        write_notes(self.folder, version, self.made.commit, self.made.section, missing)
        write_sums(self.folder)
        if dry:
            return missing
        if signing.key is not None:
            verifier = sign_sums(self.folder, version, read_key(signing.key), signing.name)
            self.report(f"signed; verifier key: {verifier}")
        if signing.sigstore:
            reason = sign_with_sigstore(self.folder)
            if reason and signing.key is None:
                raise RuntimeError(f"the release has no signature: {reason}")
            missing = [*missing, Missing(BUNDLE, reason)] if reason else missing
        return missing

    def _image_hindrance(self) -> str:
        if not shutil.which("buildah"):
            return "buildah is not installed"
        return "" if self.inputs.python_image else "--python-image names no base image"

    def _check_descriptions(self, build: Build) -> None:
        packages = [*build.folder.glob("*.whl"), *build.folder.glob("keyhouse*[0-9].tar.gz")]
        words = [self.inputs.python, "-m", "twine", "--no-color", "check", "--strict", *packages]
        build.around.run(words, build.tree, PYTHONPATH=str(self.tools))
        self.report(f"twine accepts the metadata of {len(packages)} packages")

    def _copy_image(self, build: Build, identity: str) -> None:
        name = f"keyhouse-{self.inputs.version}"
        shutil.copy(build.folder.parent / f"{name}-image.tar", self.folder)
        (self.folder / f"{name}.image-id").write_text(f"{identity}\n", encoding="utf-8")
