"""Converts manifests between the text of a form, JSON or YAML, and the bytes of an upload."""

from keyhouse.base.errors import InvalidError, Problem
from keyhouse.manifest.source.json_source import canonical_json, json_places, json_problem
from keyhouse.manifest.source.source_map import SourceMap
from keyhouse.manifest.source.yaml_text import read_yaml, write_yaml
from keyhouse.wire.json_parser import read_json


def json_of(text: str) -> bytes:
    """Return the bytes to upload for ``text``. JSON stays unchanged.

    Browsers send line ends as CR LF, so these become LF again. Raises ``InvalidError`` with every
    problem if the text is neither JSON nor YAML.
    """
    written = text.replace("\r\n", "\n").encode("utf-8", "surrogatepass")
    if _is_json(written):
        problem = json_problem(written)
        if problem is not None:
            raise InvalidError("the manifest", located([problem], json_places(written)))
        read_json(written)
        return written
    found = read_yaml(written)
    if found.problems:
        raise InvalidError("the manifest", located(found.problems, found.places))
    return canonical_json(found.tree)


def located(problems: "list[Problem] | tuple[Problem, ...]", places: SourceMap) -> list[Problem]:
    """Return ``problems`` with their line numbers."""
    found = []
    for each in problems:
        span = places.find(each.at, key=False)
        where = f"line {span.line}: {each.at}" if span is not None else each.at
        found.append(Problem(where.removesuffix(": "), each.problem, each.hint))
    return found


def yaml_of(raw: bytes) -> str:
    """Return a YAML text with the same meaning as the manifest ``raw``."""
    return write_yaml(read_json(raw))


def _is_json(written: bytes) -> bool:
    return written.lstrip(b" \t\r\n")[:1] == b"{"
