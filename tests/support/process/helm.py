"""The Helm chart, rendered by helm and validated with the schemas of Kubernetes."""

import functools
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import kubernetes_validate
import pytest
import yaml

__all__ = ["CHART", "GIVEN", "NATIVE", "SGX", "check", "helm", "refusal", "template"]

CHART: Final = Path(__file__).parents[3] / "deploy" / "helm" / "keyhouse"
DIGEST: Final = f"sha256:{'a' * 64}"
GIVEN: Final = {"image": {"repository": "registry.example/keyhouse", "digest": DIGEST}}
NATIVE: Final = {**GIVEN, "arguments": ["--platform", "simulation"]}
SGX: Final = {**GIVEN, "sgx": {"enabled": True}}

_VERSIONS: Final = ("1.29", "1.37")  # the oldest supported version, and the newest known version
_CUSTOM: Final = Path(__file__).parents[2] / "deploy" / "custom_resources.json"


def helm(*words: str, values: Mapping[str, object]) -> subprocess.CompletedProcess[str]:
    """Run helm; return the end. CI has no helm, as a build takes minutes: scripts/check-deploy."""
    found = shutil.which("helm")
    if found is None:
        pytest.skip("helm is not on PATH: scripts/check-deploy builds it")
    command = [found, *words, str(CHART), "--values=-", "--kube-version=1.31.0"]
    text, environment = json.dumps(values), {**os.environ, "GOGC": "off"}  # too short for a GC
    return subprocess.run(
        command, input=text, capture_output=True, text=True, check=False, env=environment
    )


def template(values: Mapping[str, object]) -> dict[str, dict[str, Any]]:
    """Return the rendered objects of the release ``k``, by kind and name; cached by values."""
    return _template(json.dumps(values, sort_keys=True))


@functools.cache
def _template(values: str) -> dict[str, dict[str, Any]]:
    made = helm("template", "k", values=json.loads(values))
    assert made.returncode == 0, made.stderr
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's loader is faster
    found = [each for each in yaml.load_all(made.stdout, loader) if each]
    objects = {f"{each['kind']} {each['metadata']['name']}": each for each in found}
    assert len(objects) == len(found)  # no two objects of one kind and name
    return objects


def refusal(values: Mapping[str, object]) -> str:
    """Return helm's error for invalid values."""
    refused = helm("template", "k", values=values)
    assert refused.returncode != 0
    return refused.stderr


def check(thing: Mapping[str, Any]) -> None:
    """Refuse an object outside the schema of Kubernetes or of a custom resource."""
    _check(json.dumps(thing, sort_keys=True))


@functools.cache
def _check(text: str) -> None:
    thing = json.loads(text)
    schema = _custom().get(f"{thing['apiVersion']} {thing['kind']}")
    if schema is not None:
        jsonschema_rs.validator_for(schema).validate(thing)
        return
    # Kubernetes 1.29 does not have admission policies, which are an option of the chart.
    is_policy = "AdmissionPolicy" in thing["kind"]
    for version in _VERSIONS[1:] if is_policy else _VERSIONS:
        assert kubernetes_validate.validate(thing, version, strict=True) == version


@functools.cache
def _custom() -> dict[str, Any]:
    found = json.loads(_CUSTOM.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found
