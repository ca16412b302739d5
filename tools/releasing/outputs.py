"""Make every output of a release that this machine can make, and list the missing outputs."""

import shutil
import sys
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from keyhouse.cli.release.sums import BUNDLE, NOTE
from releasing.build import (
    Build,
    Inputs,
    Missing,
    image_hindrance,
    require_equal,
    runtime_hindrance,
)
from releasing.clone import Prepared
from releasing.measurement import Enclave, sign_enclave, write_measurement
from releasing.notes import write_notes
from releasing.provenance import write_provenance
from releasing.sbom import write_sboms
from releasing.sign import read_key, sign_sums, write_sums
from releasing.sigstore import Sigstore, sign_with_sigstore
from releasing.surroundings import BOTH, Surroundings

Report = Callable[[str], None]


class Signing(NamedTuple):
    """The signatures over the sums: a key with its name, and an identity of Sigstore."""

    key: Path | None
    name: str
    sigstore: Sigstore | None


def withdraw_signatures(folder: Path) -> None:
    """Delete the signatures of a failed release, so nobody publishes its outputs."""
    for name in (NOTE, BUNDLE):
        (folder / name).unlink(missing_ok=True)


class Outputs(NamedTuple):
    """The outputs of the tree ``made`` in ``folder``. ``tools`` has the packages of the lock."""

    made: Prepared
    inputs: Inputs
    work: Path
    folder: Path
    tools: Path
    report: Report

    def build(self, enclave: Enclave) -> list[Missing]:
        """Build all outputs in both surroundings, compare, copy; return the missing outputs."""
        hindrance = runtime_hindrance((sys.version_info[0], sys.version_info[1]))
        without_image = image_hindrance()
        if not (without_image or self.inputs.python_image):
            without_image = "--python-image names no base image"
        builds, runtimes, images = [], [], []
        for around in BOTH:
            builds.append(self._build_in(around))
            if not hindrance:
                runtimes.append(builds[-1].runtime())
                self.report("built the Gramine runtime")
            if not without_image:
                images.append(builds[-1].image(self.made.commit))
                self.report(f"built the image {images[-1]}")
        first, second = builds
        if runtimes:
            require_equal("files of the runtime", (runtimes[0], runtimes[1]), self.report)
        missing, _ = (
            self._describe(build, runtime, enclave, image)
            for build, runtime, image in zip_longest(builds, runtimes, images)
        )
        require_equal("outputs", (first.folder, second.folder), self.report)
        self._check_descriptions(first)
        shutil.copytree(first.folder, self.folder, dirs_exist_ok=True)
        absent = (("Gramine runtime", hindrance), ("container image", without_image))
        return [*(Missing(name, reason) for name, reason in absent if reason), *missing]

    def _build_in(self, around: Surroundings) -> Build:
        """Build wheels, sources and SBOMs."""
        tree = around.copy(self.made.tree, self.work)
        build = Build(tree, tree.parent / "outputs", around, self.inputs)
        build.folder.mkdir()
        build.wheels_and_sources()
        write_sboms(build, self.tools)
        self.report(f"built wheels, sources and SBOMs in {around.folder!r}")
        return build

    def _describe(
        self, build: Build, runtime: Path | None, enclave: Enclave, image: str | None
    ) -> list[Missing]:
        """Sign the enclave; write measurement and provenance.

        Returns the measurement as missing if there is no signed enclave.
        """
        signed, reason = sign_enclave(build, runtime, enclave)
        if signed is not None:
            self.report(f"signed the enclave in {build.around.folder!r}")
        missing = write_measurement(build, self.made.commit, enclave, signed, reason)
        write_provenance(build, self.made.commit, image or "")
        return missing

    def finish(self, missing: list[Missing], signing: Signing, *, dry: bool) -> list[Missing]:
        """Write the notes and the sums, and sign the sums; return every missing output."""
        for name, option, value in (
            (NOTE, "--key", signing.key),
            (BUNDLE, "--sigstore", signing.sigstore),
        ):
            if dry or value is None:
                reason = "a dry run does not sign" if dry else f"{option} is not given"
                missing = [*missing, Missing(f"signature ({name})", reason)]
        version = self.inputs.version
        write_notes(self.folder, version, self.made.commit, self.made.section, missing)
        write_sums(self.folder)
        if dry:
            return missing
        # Sigstore first, because its services can fail.
        if signing.sigstore is not None:
            sign_with_sigstore(self.folder, signing.sigstore)
            self.report(f"signed with Sigstore as {signing.sigstore.identity}")
        if signing.key is not None:
            verifier = sign_sums(self.folder, version, read_key(signing.key), signing.name)
            self.report(f"signed; verifier key: {verifier}")
        return missing

    def _check_descriptions(self, build: Build) -> None:
        packages = [*build.folder.glob("*.whl"), *build.folder.glob("keyhouse*[0-9].tar.gz")]
        words = [self.inputs.python, "-m", "twine", "--no-color", "check", "--strict", *packages]
        build.around.run(words, build.tree, PYTHONPATH=str(self.tools))
        self.report(f"twine accepts the metadata of {len(packages)} packages")
