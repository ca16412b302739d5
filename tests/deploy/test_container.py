"""The Dockerfile keeps the rules of an image for production; no engine runs in the tests."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from keyhouse.server.process.settings import SETTINGS, read_settings

_ROOT: Final = Path(__file__).parent.parent.parent
_FOLDER: Final = _ROOT / "deploy" / "container"


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile: name and rest, continued lines joined."""
    text = (_FOLDER / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    found = re.findall(r"^([A-Z]+) (.*)$", joined, re.MULTILINE)
    return [(name, rest.strip()) for name, rest in found]


def last_stage() -> list[tuple[str, str]]:
    found = instructions()
    begin = max(number for number, (name, _) in enumerate(found) if name == "FROM")
    return found[begin:]


def test_the_base_is_named_by_who_builds_and_no_instruction_fetches() -> None:
    names = [name for name, _ in instructions()]
    assert instructions()[0] == ("ARG", "PYTHON_IMAGE")  # without a default
    assert {rest.split()[0] for name, rest in instructions() if name == "FROM"} == {
        "${PYTHON_IMAGE}"
    }
    assert "ADD" not in names
    assert all(rest.startswith("[") for name, rest in instructions() if name == "RUN")  # no shell


def test_packages_come_by_hash_as_wheels_and_from_the_lock() -> None:
    runs = [json.loads(rest) for name, rest in instructions() if name == "RUN"]
    installs = [words for words in runs if "install" in words]
    locked, ours = installs
    assert {"--require-hashes", "--only-binary", ":all:", "locks/runtime.txt"} <= set(locked)
    assert {"--no-index", "--no-deps", "--no-build-isolation"} <= set(ours)


def test_the_simulation_is_not_copied_and_would_be_refused() -> None:
    copied = [shlex.split(rest) for name, rest in instructions() if name == "COPY"]
    sources = {word for words in copied for word in words[:-1] if not word.startswith("-")}
    given = {source for source in sources if not source.startswith("/")}
    assert given == {
        "locks/runtime.txt",
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "src",
        "deploy/container/finish.py",
    }
    assert all((_ROOT / source).exists() for source in given)
    ignored = (_FOLDER / "Dockerfile.dockerignore").read_text(encoding="utf-8").split("\n")
    assert {line.removeprefix("!") for line in ignored if line.startswith("!")} == given


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
    assert not {"ENV", "RUN", "ARG"} & set(stage)
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
