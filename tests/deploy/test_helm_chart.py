"""The chart gives the coordinator settings that it takes, and helm reads it where helm is."""

import json
import re
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from support.process.command import run
from support.process.server import free_port
from support.samples.deployment import manifest

from keyhouse.server.process.settings import SETTINGS, read_settings

_CHART: Final = Path(__file__).parent.parent.parent / "deploy" / "helm" / "keyhouse"
_GIVEN: Final = (
    "--set=image.repository=registry.example/keyhouse",
    f"--set=image.digest=sha256:{'a' * 64}",
    "--set=arguments={--platform,gramine}",
)


def read(name: str) -> Any:
    return yaml.safe_load((_CHART / name).read_text(encoding="utf-8"))


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    """Return how helm ended. Building it takes minutes, so CI has none: scripts/check-deploy."""
    found = shutil.which("helm")
    if found is None:
        pytest.skip("helm is not on PATH: scripts/check-deploy builds it")
    command = [found, *words, "--kube-version=1.31.0"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def template(*words: str) -> dict[str, dict[str, Any]]:
    """Return what the chart makes, by kind and name."""
    made = helm("template", "k", str(_CHART), *_GIVEN, *words)
    assert made.returncode == 0, made.stderr
    found = [each for each in yaml.safe_load_all(made.stdout) if each]
    return {f"{each['kind']} {each['metadata']['name']}": each for each in found}


def test_the_chart_is_of_this_version() -> None:
    chart = read("Chart.yaml")
    assert chart["appVersion"] == chart["version"] == version("keyhouse")


def test_only_host_settings_come_from_the_environment() -> None:
    schema = json.loads((_CHART / "values.schema.json").read_text(encoding="utf-8"))
    names = set(schema["properties"]["host"]["propertyNames"]["enum"])
    assert names <= {name for each in SETTINGS if each.kind == "host" for name in each.variables}
    assert set(read("values.yaml")["host"]) <= names


def test_what_the_chart_sets_itself_cannot_be_given_too() -> None:
    text = (_CHART / "templates/statefulset.yaml").read_text(encoding="utf-8")
    flags = set(re.findall(r"^ +- (--[\w-]+)=", text, re.MULTILINE))
    schema = json.loads((_CHART / "values.schema.json").read_text(encoding="utf-8"))
    refused = re.compile(schema["properties"]["arguments"]["items"]["not"]["pattern"])
    assert flags <= {each.flag for each in SETTINGS}
    for setting in SETTINGS:
        assert bool(refused.match(setting.flag)) == (setting.flag in flags)


def test_the_commands_that_are_shown_lack_nothing_but_a_coordinator(tmp_path: Path) -> None:
    who = {"SignerID": "ab" * 32, "ProductID": 1, "SecurityVersion": 1}
    (tmp_path / "attestation.json").write_text(json.dumps(who), encoding="utf-8")
    (tmp_path / "manifest.json").write_bytes(manifest())
    notes = (_CHART / "templates" / "NOTES.txt").read_text(encoding="utf-8")
    nowhere = re.sub(r"\{\{ \.Values\.service\.clientPort \}\}", str(free_port()), notes)
    commands = re.findall(r"^  keyhouse (.+)$", nowhere, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["status", "manifest"]
    for command in commands:
        ended = run(*command.split(), folder=tmp_path)
        assert (ended.code, ended.out) == (3, ""), ended.err  # nothing answers there


def test_the_container_is_told_what_keyhouse_takes() -> None:
    made = template("--set=startupManifest=first", "--set=sgx.enabled=true")
    (container,) = made["StatefulSet k-keyhouse"]["spec"]["template"]["spec"]["containers"]
    assert container["args"][0] == "serve"
    settings = read_settings(container["args"][1:], {})
    assert (settings.platform, settings.metrics) == ("gramine", ("", 9944))
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["resources"]["limits"]["sgx.intel.com/enclave"] == 1
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"client": 4433, "mesh": 2001, "metrics": 9944}


def test_nobody_reaches_the_metrics_by_default() -> None:
    made = template()
    rules = made["NetworkPolicy k-keyhouse"]["spec"]["ingress"]
    assert [port["port"] for rule in rules for port in rule["ports"]] == ["client", "mesh"]
    assert made["NetworkPolicy k-keyhouse"]["spec"]["egress"] == []


@pytest.mark.parametrize(
    "words",
    [
        ("--set=image.digest=latest",),
        ("--set=arguments={}",),
        ("--set=arguments={--data-dir=/tmp}",),
        ("--set=host.KEYHOUSE_DATA_DIR=/tmp",),
        ("--set=host.PYTHONPATH=/tmp",),
    ],
)
def test_values_that_must_not_be_are_refused(words: tuple[str, ...]) -> None:
    refused = helm("template", "k", str(_CHART), *_GIVEN, *words)
    assert refused.returncode != 0
    assert "schema" in refused.stderr
