"""Convert manifests between the text in a form, JSON or YAML, and the JSON of an upload."""

from collections.abc import Iterable

import msgspec

from keyhouse.base.errors import InvalidError, Problem
from keyhouse.manifest.source.json_source import canonical_json, json_places, json_problem
from keyhouse.manifest.source.source_map import place_of
from keyhouse.manifest.source.yaml_text import read_yaml, write_yaml
from keyhouse.wire.json_parser import read_json


class LineProblem(msgspec.Struct, frozen=True):
    """A problem of a manifest. ``line`` is its line in the text of the form, from 1; 0: unknown."""

    line: int
    problem: Problem


def json_of(text: str) -> bytes:
    """Return the JSON to upload for ``text``, a manifest in JSON or YAML.

    JSON stays unchanged, except for line ends: browsers send CR LF, and the result has LF. Raises
    ``InvalidError`` with every problem of the syntax.
    """
    written = _written(text)
    if _is_json(written):
        problem = json_problem(written, or_yaml=True)
        if problem is not None:
            raise InvalidError("the manifest", [problem])
        read_json(written)
        return written
    found = read_yaml(written)
    if found.problems:
        raise InvalidError("the manifest", found.problems)
    return canonical_json(found.tree)


def located(text: str, problems: Iterable[Problem]) -> list[LineProblem]:
    """Return ``problems`` of the manifest ``text`` with their lines, sorted by line."""
    problems = tuple(problems)
    if not problems:
        return []
    written = _written(text)
    places = json_places(written) if _is_json(written) else read_yaml(written).places
    spans = [(place_of(places, each), each) for each in problems]
    found = [LineProblem(span.line if span else 0, each) for span, each in spans]
    return sorted(found, key=lambda each: each.line)


def yaml_of(raw: bytes) -> str:
    """Return a YAML text with the same meaning as the manifest ``raw`` (JSON)."""
    return write_yaml(read_json(raw))


def _written(text: str) -> bytes:
    return text.replace("\r\n", "\n").encode("utf-8", "surrogatepass")


def _is_json(written: bytes) -> bool:
    return written.lstrip(b" \t\r\n")[:1] == b"{"
