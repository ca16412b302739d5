"""The rules of the images, for production and for development; no engine runs in the tests."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from support.process.command import run

from keyhouse.server.process.settings import SETTINGS, read_settings

_ROOT: Final = Path(__file__).parent.parent.parent
_FOLDER: Final = _ROOT / "deploy" / "container"
_PRODUCTION: Final = _FOLDER / "Dockerfile"
_DEVELOPMENT: Final = _ROOT / "deploy" / "dev" / "Containerfile"


def instructions(file: Path = _PRODUCTION) -> list[tuple[str, str]]:
    """Return the instructions of ``file``: name and rest, continued lines joined."""
    text = file.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    found = re.findall(r"^([A-Z]+) (.*)$", joined, re.MULTILINE)
    return [(name, rest.strip()) for name, rest in found]


def last_stage() -> list[tuple[str, str]]:
    found = instructions()
    begin = max(number for number, (name, _) in enumerate(found) if name == "FROM")
    return found[begin:]


both_images: Final = pytest.mark.parametrize(
    "file", [_PRODUCTION, _DEVELOPMENT], ids=["production", "development"]
)


@both_images
def test_the_base_is_named_by_who_builds_and_no_instruction_fetches(file: Path) -> None:
    found = instructions(file)
    assert found[0] == ("ARG", "PYTHON_IMAGE")  # without a default
    assert {rest.split()[0] for name, rest in found if name == "FROM"} == {"${PYTHON_IMAGE}"}
    assert "ADD" not in dict(found)
    assert all(rest.startswith("[") for name, rest in found if name == "RUN")  # no shell


@both_images
def test_packages_come_by_hash_as_wheels_and_from_the_lock(file: Path) -> None:
    runs = [json.loads(rest) for name, rest in instructions(file) if name == "RUN"]
    installs = [words for words in runs if "pip" in words]
    locked, ours = installs
    assert {"--require-hashes", "--only-binary", ":all:", "locks/runtime.txt"} <= set(locked)
    assert {"--no-index", "--no-deps", "--no-build-isolation"} <= set(ours)


@pytest.mark.parametrize(
    ("file", "further"),
    [(_PRODUCTION, "deploy/container/finish.py"), (_DEVELOPMENT, "simulation")],
    ids=["production", "development"],
)
def test_only_the_image_for_development_gets_the_simulation(file: Path, further: str) -> None:
    copied = [shlex.split(rest) for name, rest in instructions(file) if name == "COPY"]
    sources = {word for words in copied for word in words[:-1] if not word.startswith("-")}
    given = {source for source in sources if not source.startswith("/")}
    ours = {"locks/runtime.txt", "pyproject.toml", "README.md", "LICENSE", "src"}
    assert given == ours | {further}
    assert all((_ROOT / source).exists() for source in given)
    ignored = file.with_name(f"{file.name}.dockerignore").read_text(encoding="utf-8").split("\n")
    assert {line.removeprefix("!") for line in ignored if line.startswith("!")} == given


def test_the_image_for_development_runs_keyhouse_dev_as_nobody() -> None:
    found = dict(instructions(_DEVELOPMENT))
    words = [*json.loads(found["ENTRYPOINT"]), *json.loads(found["CMD"])]
    assert found["USER"] == "65532:65532"
    assert words[:2] == ["keyhouse", "dev"]
    # Refused after the words were read, and before anything is started.
    ended = run(*words[1:], "--no-user")
    assert "--no-user has no effect here" in ended.err


def test_the_image_runs_as_nobody_isolated_with_settings_that_keyhouse_takes() -> None:
    stage = dict(last_stage())
    assert stage["USER"] == "65532:65532"
    assert json.loads(stage["ENTRYPOINT"])[1:] == ["-I", "-B", "-m", "keyhouse.cli"]
    command = json.loads(stage["CMD"])
    assert command[0] == "serve"
    settings = read_settings(command[1:], {})
    (volume,) = json.loads(stage["VOLUME"])
    assert settings.data_dir.parent == Path(volume)
    assert settings.platform == "auto"
    assert stage["ENV"].startswith("PATH=/opt/keyhouse/bin:")  # keyhouse, for kubectl exec
    assert not {"RUN", "ARG"} & set(stage)
    variables = {name for each in SETTINGS for name in each.variables}
    assert not any(name in rest for _, rest in instructions() for name in variables)


@pytest.mark.parametrize("name", ["keyhouse_simulation", "pytest"])
def test_an_environment_with_what_is_not_for_production_is_refused(
    tmp_path: Path, name: str
) -> None:
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    (packages / name).mkdir(parents=True)
    (packages / "pip").mkdir()
    done = subprocess.run(
        [sys.executable, "-I", "-B", str(_FOLDER / "finish.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == f"error: not for production: {name}\n"
    assert not (packages / "pip").exists()
