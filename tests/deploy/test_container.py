"""The rules of the images, for production and for development; no engine runs in the tests."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from support.images.containerfile import instructions, sources, stages
from support.process.command import run

from keyhouse.server.process.settings import SETTINGS, read_settings

_ROOT: Final = Path(__file__).parent.parent.parent
_FOLDER: Final = _ROOT / "deploy" / "container"
_PRODUCTION: Final = _FOLDER / "Dockerfile"
_DEVELOPMENT: Final = _ROOT / "deploy" / "dev" / "Containerfile"


both_images: Final = pytest.mark.parametrize(
    "file", [_PRODUCTION, _DEVELOPMENT], ids=["production", "development"]
)


@both_images
def test_the_base_is_named_by_who_builds_and_no_instruction_fetches(file: Path) -> None:
    found = instructions(file)
    assert found[0] == ("ARG", "PYTHON_IMAGE")  # without a default
    assert {rest.split()[0] for name, rest in found if name == "FROM"} == {"${PYTHON_IMAGE}"}
    assert [*stages(file)] == ["before", "wheels", "build", ""]
    assert "ADD" not in dict(found)
    assert all(rest.startswith("[") for name, rest in found if name == "RUN")  # no shell


@both_images
def test_packages_come_by_hash_as_wheels_and_from_the_lock(file: Path) -> None:
    runs = [json.loads(rest) for name, rest in instructions(file) if name == "RUN"]
    installs = [words for words in runs if "pip" in words]
    locked = [words for words in installs if "-r" in words]
    assert all({"--require-hashes", "--no-deps", "--only-binary"} <= set(words) for words in locked)
    own = [words for words in installs if words not in locked]
    assert all({"--no-index", "--find-links", "/wheels"} <= set(words) for words in own)


def test_each_environment_has_the_wheels_of_its_lock_and_no_build_dependency() -> None:
    assert _environments(_PRODUCTION) == {
        ("/opt/keyhouse", "keyhouse-coordinator", "locks/coordinator.txt"),
        ("/opt/keyhouse-commands", "keyhouse", "locks/people.txt"),
    }
    assert _environments(_DEVELOPMENT) == {
        ("/opt/keyhouse", "keyhouse-simulation", "locks/people.txt")
    }


def _environments(file: Path) -> set[tuple[str, str, str]]:
    """Return environment, distribution and lock of the ``build`` stage, each checked."""
    runs = [json.loads(rest) for name, rest in stages(file)["build"] if name == "RUN"]
    pips = [words for words in runs if "pip" in words]
    installed = [(words[0].removesuffix("/bin/python"), words[-1]) for words in pips]
    finished = {(one, two, three) for *rest, one, two, three in runs if "finish.py" in rest}
    assert sorted(installed) == sorted(
        (environment, given) for environment, *both in finished for given in both
    )
    return finished


@both_images
def test_the_context_of_the_build_has_the_copied_files_alone(file: Path) -> None:
    given = sources(file)
    assert all((_ROOT / source).exists() for source in given)
    ignored = file.with_name(f"{file.name}.dockerignore").read_text(encoding="utf-8").split("\n")
    assert {line.removeprefix("!") for line in ignored if line.startswith("!")} == given
    copied = [rest for name, rest in stages(file)[""] if name == "COPY"]
    program = "--chmod=0755 deploy/container/keyhouse /usr/local/bin/keyhouse"
    assert all(rest.startswith("--from=build ") or rest == program for rest in copied)


def test_the_image_for_development_runs_keyhouse_dev_as_nobody() -> None:
    found = dict(instructions(_DEVELOPMENT))
    words = [*json.loads(found["ENTRYPOINT"]), *json.loads(found["CMD"])]
    assert found["USER"] == "65532:65532"
    assert words[:2] == ["keyhouse", "dev"]
    # Refused after the words were read, and before anything is started.
    ended = run(*words[1:], "--no-user")
    assert "--no-user has no effect here" in ended.err


def test_the_image_runs_as_nobody_with_settings_that_keyhouse_takes() -> None:
    stage = dict(stages(_PRODUCTION)[""])
    assert stage["USER"] == "65532:65532"
    (program,) = json.loads(stage["ENTRYPOINT"])
    assert f"deploy/container/keyhouse {program}" in str(stages(_PRODUCTION)[""])
    command = json.loads(stage["CMD"])
    assert command[0] == "serve"
    settings = read_settings(command[1:], {})
    (volume,) = json.loads(stage["VOLUME"])
    assert settings.data_dir.parent == Path(volume)
    assert settings.platform == "auto"
    assert stage["ENV"].startswith("PATH=/usr/local/bin:")  # keyhouse, for kubectl exec
    assert not {"RUN", "ARG"} & set(stage)
    variables = {name for each in SETTINGS for name in each.variables}
    assert not any(name in rest for _, rest in instructions(_PRODUCTION) for name in variables)


@pytest.mark.parametrize(
    ("words", "started"),
    [
        (["serve", "--data-dir", "/data/a b"], "keyhouse -m keyhouse.server --data-dir /data/a b"),
        (["backup", "serve"], "keyhouse-commands -m keyhouse.cli backup serve"),
        ([], "keyhouse-commands -m keyhouse.cli"),
    ],
)
def test_the_command_of_the_image_serves_from_the_coordinators_environment(
    tmp_path: Path, words: list[str], started: str
) -> None:
    script = (_FOLDER / "keyhouse").read_text(encoding="utf-8")
    for name in ("keyhouse", "keyhouse-commands"):
        python = tmp_path / "opt" / name / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\n[ "$1$2" = -I-B ] && shift 2 && echo {name} "$@"\n')
        python.chmod(0o755)
    copy = tmp_path / "command"
    copy.write_text(script.replace("/opt/", f"{tmp_path}/opt/"))
    done = subprocess.run(["/bin/sh", copy, *words], capture_output=True, text=True, check=True)
    assert done.stdout == f"{started}\n"


def _finish(folder: Path, distribution: str, lock: str) -> subprocess.CompletedProcess[str]:
    (folder / "lock.txt").write_text(lock, encoding="utf-8")
    words = [str(_FOLDER / "finish.py"), str(folder), distribution, str(folder / "lock.txt")]
    return subprocess.run(
        [sys.executable, "-I", "-B", *words], capture_output=True, text=True, check=False
    )


def _package(packages: Path, name: str, needs: str = "") -> None:
    information = packages / f"{name.replace('-', '_')}-1.0.dist-info"
    information.mkdir(parents=True)
    (packages / name).mkdir()
    # From Python 3.12, importlib.metadata leaves out the files that are missing.
    (packages / name / "__init__.py").touch()
    (information / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n{needs}")
    (information / "RECORD").write_text(f"{information.name}/RECORD,,\n{name}/__init__.py,,\n")


@pytest.mark.parametrize("name", ["keyhouse_simulation", "pytest", "flit_core"])
def test_an_environment_with_what_is_not_for_production_is_refused(
    tmp_path: Path, name: str
) -> None:
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    _package(packages, "keyhouse-coordinator", "Requires-Dist: keyhouse-base==1.0\n")
    _package(packages, "keyhouse-base")
    _package(packages, "h2")
    _package(packages, "pip")
    _package(packages, name)
    done = _finish(tmp_path, "keyhouse-coordinator", "h2==1.0 \\\n")
    assert done.returncode == 1
    assert done.stderr == f"error: {packages}: {name.replace('_', '-')} is not wanted\n"
    assert not (packages / "pip").exists()


def test_a_missing_wheel_another_version_and_a_lone_folder_are_refused(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    _package(packages, "keyhouse-coordinator", "Requires-Dist: keyhouse-base==1.0\n")
    _package(packages, "h2")
    (packages / "lone").mkdir()
    done = _finish(tmp_path, "keyhouse-coordinator", "h2==2.0 \\\n")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"error: {packages}: keyhouse-base is missing",
        f"error: {packages}: h2 is 1.0; the lock states 2.0",
        f"error: {packages}: lone belongs to no package",
    ]
