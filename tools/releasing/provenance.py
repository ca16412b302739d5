"""Write the provenance of the outputs: an in-toto Statement v1 with the predicate of SLSA v1.

Source: slsa.dev/spec/v1.1/provenance. The statement names the source, the locks, the base image,
and the tools with an influence on the bytes. The signature over the sums covers the statement.
"""

import json
import platform
import zlib
from importlib.metadata import version
from typing import Any, Final

from keyhouse.cli.release.sums import digest
from releasing.build import Build

PREDICATE: Final = "https://slsa.dev/provenance/v1"

_BUILD_TYPE: Final = "urn:keyhouse:release:v1"
_BUILDER: Final = "urn:keyhouse:scripts/release"
_LOCKS: Final = ("build", "coordinator", "people")


def write_provenance(build: Build, commit: str, image: str) -> None:
    """Write the statement over the outputs of ``build``.

    ``image`` is the digest of the image's manifest (``sha256:HEX``), or empty.
    """
    inputs = build.inputs
    subjects = [_resource(path.name, digest(path)) for path in sorted(build.folder.iterdir())]
    sources = [{"name": "source", "digest": {"gitCommit": commit}}]
    sources += [_resource(f"locks/{name}.txt", _lock(build, name)) for name in _LOCKS]
    tools = {"python": platform.python_version(), "zlib": zlib.ZLIB_RUNTIME_VERSION}
    if image:
        subjects.append(_resource(f"keyhouse-{inputs.version}-image", _hex(image)))
        name, _, base = inputs.python_image.partition("@")
        sources.append(_resource(name, _hex(base)))
        tools["buildah"] = build.around.run(["buildah", "--version"], build.tree).split()[2]
    statement: dict[str, Any] = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": _BUILD_TYPE,
                "externalParameters": {"version": inputs.version, "buildTime": inputs.time},
                "internalParameters": {**tools, "flit_core": version("flit_core")},
                "resolvedDependencies": sources,
            },
            "runDetails": {"builder": {"id": _BUILDER}},
        },
    }
    target = build.folder / f"keyhouse-{inputs.version}.provenance.json"
    target.write_text(json.dumps(statement, indent=2) + "\n", encoding="utf-8")


def _resource(name: str, sha256: str) -> dict[str, Any]:
    return {"name": name, "digest": {"sha256": sha256}}


def _hex(named: str) -> str:
    return named.removeprefix("sha256:")


def _lock(build: Build, name: str) -> str:
    return digest(build.tree / "locks" / f"{name}.txt")
