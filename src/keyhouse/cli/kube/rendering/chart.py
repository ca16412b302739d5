"""Read the chart of this distribution, and render its objects from values."""

import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from keyhouse.base.errors import BrokenError, InvalidError
from keyhouse.cli.kube.rendering.evaluation import TemplateScope
from keyhouse.cli.kube.rendering.functions import merge
from keyhouse.cli.kube.rendering.schema import Schema
from keyhouse.cli.kube.rendering.syntax import Node, parse
from keyhouse.manifest.source.yaml_text import read_yaml

CHART: Final = Path(__file__).parents[1] / "chart"
"""The directory of the chart, which is part of this distribution."""

_DOCUMENT: Final = re.compile(r"^---[ \t]*$", re.MULTILINE)
_ORDER: Final = (
    "ConfigMap",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "PersistentVolumeClaim",
    "Service",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)
"""Kinds that the cluster should have before the pods; further kinds follow."""

Object = dict[str, Any]
"""An object of Kubernetes."""


class Release(msgspec.Struct, frozen=True):
    """An installation of the chart: its name and its namespace."""

    name: str
    namespace: str
    service: str = "keyhouse"  # the value of the label app.kubernetes.io/managed-by


class Chart(msgspec.Struct, frozen=True):
    """The parsed chart. ``definitions`` are its named templates, ``files`` its further texts."""

    version: str
    app_version: str
    defaults: Mapping[str, Any]
    schema: Schema
    templates: Mapping[str, tuple[Node, ...]]  # by name of the file
    definitions: Mapping[str, tuple[Node, ...]]
    files: Mapping[str, str]

    def completed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the chart's values: ``values`` of a user, and the defaults for missing values.

        A null in ``values`` removes the default, as with helm. Raises ``InvalidError`` for values
        that the schema refuses.
        """
        made: dict[str, Any] = _without_nulls(merge(values, self.defaults))
        problems = self.schema.problems(made)
        if problems:
            raise InvalidError("the values of the chart", problems)
        return made

    def render(self, values: Mapping[str, Any], release: Release) -> list[Object]:
        """Render the templates; return the objects of ``release`` in the order to apply them.

        ``values``: the values of a user, without defaults. Raises ``InvalidError`` and
        ``ValuesRefusedError``.
        """
        dot = {
            "Values": self.completed(values),
            "Chart": {"Name": "keyhouse", "Version": self.version, "AppVersion": self.app_version},
            "Release": {
                "Name": release.name,
                "Namespace": release.namespace,
                "Service": release.service,
            },
        }
        objects: list[Object] = []
        for file, nodes in self.templates.items():
            text = TemplateScope.outermost(dot, self.definitions, self.files).render(nodes)
            objects += _objects(file, text)
        return sorted(objects, key=_place)


@functools.cache
def chart() -> Chart:
    """Read and return the chart of this distribution; a second call returns the same value."""
    definitions: dict[str, tuple[Node, ...]] = {}
    templates = {
        path.name: parse(path.read_text(encoding="utf-8"), definitions)
        for path in sorted((CHART / "templates").iterdir())
        if path.suffix in {".tpl", ".yaml"}
    }
    about = _yaml(CHART / "Chart.yaml")
    return Chart(
        about["version"],
        about["appVersion"],
        _yaml(CHART / "values.yaml"),
        Schema(msgspec.json.decode((CHART / "values.schema.json").read_bytes())),
        {name: nodes for name, nodes in templates.items() if name.endswith(".yaml")},
        definitions,
        {"alerts.yaml": (CHART / "alerts.yaml").read_text(encoding="utf-8")},
    )


def _yaml(path: Path) -> Any:
    read = read_yaml(path.read_bytes())
    if read.problems:
        raise BrokenError(f"{path.name} of the chart: {read.problems[0]}")
    return read.tree


def _objects(file: str, text: str) -> Sequence[Object]:
    made = []
    for part in _DOCUMENT.split(text):
        if not re.sub(r"(?m)^\s*(#.*)?$", "", part).strip():
            continue
        read = read_yaml(part.encode())
        if read.problems:
            raise BrokenError(f"{file} of the chart: {read.problems[0]}")
        if read.tree is not None:
            made.append(read.tree)
    return made


def _place(thing: Object) -> tuple[int, str, str]:
    kind = thing["kind"]
    place = _ORDER.index(kind) if kind in _ORDER else len(_ORDER)
    return place, kind, thing["metadata"]["name"]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return value
