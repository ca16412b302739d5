"""Files for hosting, editors and hooks: they parse, and name existing paths and tools."""

import json
import re
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.distributions import TABLE

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github/workflows").iterdir())
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
COMMIT_LINE = re.compile(r"^ *- uses: (.+)$", re.MULTILINE)
# Programs of a step besides the scripts of this repository.
SYSTEM_PROGRAMS = {"cp", "{", "echo", "diff", "}"}


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def triggers(workflow: Any) -> set[str]:
    return set(workflow[True])  # YAML 1.1 reads the key `on` as true


def named(path: Path) -> str:
    return path.name


@pytest.mark.parametrize("path", WORKFLOWS, ids=named)
def test_workflow_runs_existing_scripts_with_pinned_actions(path: Path) -> None:
    workflow = read(path)
    uses = COMMIT_LINE.findall(path.read_text(encoding="utf-8"))
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]

    assert [each for each in uses if not PINNED.fullmatch(each)] == []
    assert len(uses) == sum("uses" in step for step in steps)
    for step in steps:
        assert len({"uses", "run"} & set(step)) == 1
        for line in step.get("run", "").splitlines():
            program = line.split()[0]
            assert program in SYSTEM_PROGRAMS or (ROOT / program).stat().st_mode & 0o100


@pytest.mark.parametrize("path", WORKFLOWS, ids=named)
def test_workflow_has_few_rights(path: Path) -> None:
    workflow = read(path)

    assert workflow["permissions"] == {}
    assert triggers(workflow) <= {"push", "pull_request", "schedule", "workflow_dispatch"}
    for job in workflow["jobs"].values():
        assert job["permissions"]["contents"] == "read"
        rights = {name for name, right in job["permissions"].items() if right != "read"}
        assert rights <= ({"id-token"} if path.name == "scorecard.yml" else set())
        assert job["timeout-minutes"] <= 120
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False
    assert "${{ secrets." not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", WORKFLOWS, ids=named)
def test_no_text_of_another_person_gets_into_a_shell(path: Path) -> None:
    for job in read(path)["jobs"].values():
        assert [step for step in job["steps"] if "${{" in step.get("run", "")] == []


def test_ci_runs_the_checks_on_each_supported_python() -> None:
    job = read(ROOT / ".github/workflows/ci.yml")["jobs"]["run"]
    oldest = PROJECT["project"]["requires-python"].removeprefix(">=")
    marked = [
        each.removeprefix("Programming Language :: Python :: ")
        for each in PROJECT["project"]["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", each)
    ]

    tried = job["strategy"]["matrix"]["python"]
    assert tried[: len(marked)] == marked  # a version gets its classifier after its first run
    assert marked[0] == oldest
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]


def owned() -> dict[str, str]:
    """Return the owner of each path in CODEOWNERS."""
    lines = (ROOT / ".github/CODEOWNERS").read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return dict(rows)  # a line of another length is an error here


def test_paths_with_owners_exist_and_have_one_team() -> None:
    owners = owned()

    assert [path for path in owners if not (ROOT / path.lstrip("/")).exists()] == []
    assert [path for path in owners if path.endswith("/") != (ROOT / path[1:]).is_dir()] == []
    assert set(owners.values()) == {"@keyhouse/trusted-code"}


@pytest.mark.parametrize(
    "wheel", ["keyhouse-base", "keyhouse-coordinator", "keyhouse-launcher"], ids=str
)
def test_trusted_rooms_have_owners(wheel: str) -> None:
    row = TABLE.rows[wheel]
    parts = [f"src/{module.replace('.', '/')}" for module in (*row["rooms"], *row["modules"])]
    places = [f"/{part}/__init__.py" if (ROOT / part).is_dir() else f"/{part}.py" for part in parts]
    assert [each for each in places if not (ROOT / each[1:]).exists()] == []

    assert [each for each in places if not each.startswith(tuple(owned()))] == []


def test_hooks_run_tools_of_the_locks() -> None:
    hooks = [hook for repo in read(ROOT / ".ci/pre-commit.yaml")["repos"] for hook in repo["hooks"]]
    locked = (ROOT / "locks/development.txt").read_text(encoding="utf-8")
    packages = {"lint-imports": "import-linter"}

    assert len({hook["id"] for hook in hooks}) == len(hooks) > 0
    for hook in hooks:
        assert hook["language"] == "system"  # nothing is downloaded
        tool = hook["entry"].split()[0].removeprefix(".venv/bin/")
        assert re.search(rf"^{packages.get(tool, tool)}==", locked, re.MULTILINE), tool
        assert f".venv/bin/{tool}" in (ROOT / "scripts/test").read_text(encoding="utf-8")


def test_updates_wait_as_long_as_the_locks() -> None:
    found = re.search(r"date -u -d '(\d+) days ago'", (ROOT / "scripts/lock").read_text())
    assert found is not None
    week = timedelta(days=int(found[1]))
    config = read(ROOT / ".github/dependabot.yml")

    assert config["version"] == 2
    for update in config["updates"]:
        assert timedelta(days=update["cooldown"]["default-days"]) == week
        assert update["schedule"]["interval"] in {"daily", "weekly", "monthly"}
        for folder in update.get("directories", []):
            assert (ROOT / folder[1:] / "go.mod").is_file()
    modules = {f"/{path.parent.relative_to(ROOT)}" for path in _go_modules()}
    (go,) = (each for each in config["updates"] if each["package-ecosystem"] == "gomod")
    assert set(go["directories"]) == modules


def _go_modules() -> list[Path]:
    return [path for part in ("tests", "tools") for path in (ROOT / part).rglob("go.mod")]


@pytest.mark.parametrize("name", ["bug.yml", "feature.yml"])
def test_issue_form_asks_different_questions(name: str) -> None:
    form = read(ROOT / ".github/ISSUE_TEMPLATE" / name)
    questions = [each for each in form["body"] if each["type"] != "markdown"]

    assert form["name"]
    assert form["description"]
    assert len({each["id"] for each in questions}) == len(questions) > 0
    assert all(set(each) == {"type", "id", "attributes", "validations"} for each in questions)
    assert all({"label", "description"} <= set(each["attributes"]) for each in questions)
    assert {each["type"] for each in questions} <= {"textarea", "input", "dropdown", "checkboxes"}


def test_blank_issues_are_off() -> None:
    config = read(ROOT / ".github/ISSUE_TEMPLATE/config.yml")
    assert config == {"blank_issues_enabled": False}


def test_request_template_names_existing_files() -> None:
    text = (ROOT / ".github/pull_request_template.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z]+/[\w./-]+)`", text)

    assert named
    assert [each for each in named if not (ROOT / each).exists()] == []


def test_devcontainer_makes_the_environment_of_the_locks() -> None:
    found = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
    commands = found["postCreateCommand"].split(" && ")

    oldest = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert found["image"] == f"docker.io/library/python:{oldest}-bookworm"
    assert all((ROOT / each.split()[0]).stat().st_mode & 0o100 for each in commands)
    assert commands[-1] == "scripts/setup development"


def test_editor_settings_agree_with_the_formatter() -> None:
    sections: dict[str, dict[str, str]] = {}
    name = ""
    for line in (ROOT / ".editorconfig").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            name = line
            assert line.endswith("]")
            assert name not in sections
        elif line and not line.startswith("#"):
            key, equals, value = line.partition(" = ")
            assert equals
            sections.setdefault(name, {})[key] = value

    assert sections[""] == {"root": "true"}
    assert sections["[*.py]"]["max_line_length"] == str(PROJECT["tool"]["ruff"]["line-length"])
    assert sections["[*]"]["end_of_line"] == "lf"


def test_the_security_policy_states_supported_versions() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    section = text.partition("## Supported versions\n")[2].partition("\n## ")[0]
    major, minor, _ = PROJECT["project"]["version"].split(".")

    assert f"| {major}.{minor} |" in section
