"""The chart gives the coordinator settings that it takes, and helm reads it where helm is."""

import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml
from support.process.command import run
from support.process.helm import CHART, NATIVE, template
from support.process.server import free_port
from support.samples.deployment import manifest

from keyhouse.server.process.settings import SETTINGS, read_settings


def read(name: str) -> Any:
    return yaml.safe_load((CHART / name).read_text(encoding="utf-8"))


def test_the_chart_is_of_this_version() -> None:
    chart = read("Chart.yaml")
    assert chart["appVersion"] == chart["version"] == version("keyhouse")


def test_only_host_settings_come_from_the_environment() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    names = set(schema["properties"]["host"]["propertyNames"]["enum"])
    assert names <= {name for each in SETTINGS if each.kind == "host" for name in each.variables}
    assert set(read("values.yaml")["host"]) <= names


def test_what_the_chart_sets_itself_cannot_be_given_too() -> None:
    text = (CHART / "templates/_pod.tpl").read_text(encoding="utf-8")
    flags = set(re.findall(r"^ +- (--[\w-]+)=", text, re.MULTILINE))
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    refused = re.compile(schema["properties"]["arguments"]["items"]["not"]["pattern"])
    assert flags <= {each.flag for each in SETTINGS}
    for setting in SETTINGS:
        assert bool(refused.match(setting.flag)) == (setting.flag in flags)


def test_the_commands_that_are_shown_lack_nothing_but_a_coordinator(tmp_path: Path) -> None:
    who = {"SignerID": "ab" * 32, "ProductID": 1, "SecurityVersion": 1}
    (tmp_path / "attestation.json").write_text(json.dumps(who), encoding="utf-8")
    (tmp_path / "manifest.json").write_bytes(manifest())
    notes = (CHART / "templates" / "NOTES.txt").read_text(encoding="utf-8")
    nowhere = re.sub(r"\{\{ \.Values\.service\.clientPort \}\}", str(free_port()), notes)
    commands = re.findall(r"^  keyhouse (.+)$", nowhere, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["status", "manifest"]
    for command in commands:
        ended = run(*command.split(), folder=tmp_path)
        assert (ended.code, ended.out) == (3, ""), ended.err  # nothing answers there


def test_the_container_is_told_what_keyhouse_takes() -> None:
    made = template({**NATIVE, "startupManifest": "first"})
    (container,) = made["StatefulSet k-keyhouse"]["spec"]["template"]["spec"]["containers"]
    assert container["args"][0] == "serve"
    settings = read_settings(container["args"][1:], {})
    assert (settings.platform, settings.metrics_addr) == ("simulation", ("", 9944))
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"client": 4433, "mesh": 2001, "metrics": 9944}


def test_nobody_reaches_the_metrics_by_default() -> None:
    made = template(NATIVE)
    rules = made["NetworkPolicy k-keyhouse"]["spec"]["ingress"]
    assert [port["port"] for rule in rules for port in rule["ports"]] == ["client", "mesh"]
    assert made["NetworkPolicy k-keyhouse"]["spec"]["egress"] == []
