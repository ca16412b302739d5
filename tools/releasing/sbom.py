"""Write an SBOM (CycloneDX 1.6, JSON) for each distribution with a lock.

``cyclonedx-py`` reads requirement files. The requirements are the lock of the distribution and its
wheels of Keyhouse, each with a sum.
"""

import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keyhouse.cli.release.sums import digest
from releasing.build import Build


def write_sboms(build: Build, tools: Path) -> None:
    """Write the SBOMs beside the outputs of ``build``. ``tools`` has the packages of the lock."""
    table: Any = runpy.run_path(str(build.tree / "deploy" / "distributions.py"))["Table"].read()
    for name, row in table.rows.items():
        if "lock" not in row:
            continue
        lock = build.tree / "locks" / f"{row['lock']}.txt"
        requirements = build.folder.parent / f"{name}.requirements.txt"
        own = "".join(_requirements(build, row["needs"]))
        requirements.write_text(lock.read_text(encoding="utf-8") + own, encoding="utf-8")
        project = build.folder.parent / f"{name}.toml"
        project.write_text(
            f'[project]\nname = "{name}"\nversion = "{build.inputs.version}"\n'
            f'description = "{row["summary"]}"\nlicense = "Apache-2.0"\n',
            encoding="utf-8",
        )
        target = build.folder / f"{name}-{build.inputs.version}.cdx.json"
        build.around.run(
            [
                *(build.inputs.python, "-m", "cyclonedx_py", "requirements", "--sv", "1.6"),
                *("--output-reproducible", "--pyproject", project, "-o", target, requirements),
            ],
            build.tree,
            PYTHONPATH=str(tools),
            SOURCE_DATE_EPOCH=str(build.inputs.time),
        )
        _name_own_wheels(target, row["needs"])


def _name_own_wheels(sbom: Path, names: list[str]) -> None:
    """Replace the references to a package index by the file names of the wheels.

    Keyhouse does not publish in a package index. A package of this name can belong to strangers.
    """
    written = json.loads(sbom.read_text(encoding="utf-8"))
    for component in written["components"]:
        if component["name"] in names:
            file = f"{component['name'].replace('-', '_')}-{component['version']}-py3-none-any.whl"
            for reference in component["externalReferences"]:
                reference.update(url=file, comment="file of this release")
    sbom.write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")


def _requirements(build: Build, names: list[str]) -> Iterator[str]:
    for name in names:
        version = build.inputs.version
        wheel = build.folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
        yield f"{name}=={version} --hash=sha256:{digest(wheel)}\n"
