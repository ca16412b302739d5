"""The page Manifest: the manifest in force as tables, picture and source, and comparisons."""

import asyncio
import difflib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from keyhouse.base.errors import NotFoundError, RefusedError
from keyhouse.console.access import Node, graph_of
from keyhouse.console.deployments import Deployment, InForce
from keyhouse.console.manifest_text import json_of, yaml_of
from keyhouse.console.page import View, fields_of, page, paged, redirect
from keyhouse.console.picture import drawing_of
from keyhouse.console.public_log import LogPart, earlier_manifest
from keyhouse.manifest import Manifest, decode, fingerprint
from keyhouse.manifest.diff import diff
from keyhouse.transparency.leaf import ManifestSet, ManifestUpdated
from keyhouse.views import difference
from keyhouse.wire.json_parser import read_json
from keyhouse.wire.secret_types import manifest_name

_SECTIONS: Final = tuple(
    manifest_name(field) for field in Manifest.__struct_fields__ if field not in {"raw", "config"}
)
# Fields that the table shows by their members.
_OPENED: Final = frozenset({"Parameters"})
# Characters of a value in a table.
_LONGEST: Final = 120
# Nodes in a column of the picture.
_MOST_NODES: Final = 24
# Lines of both texts together: a comparison by lines costs their product in the worst case.
_MOST_LINES: Final = 20_000
# Lines of a block of the source. The style sheet reserves the height of this number.
_BLOCK: Final = 200


class Row(msgspec.Struct, frozen=True):
    """An entry of a section with the fields of the manifest. Long values are shortened."""

    name: str
    fields: tuple[tuple[str, str], ...]


class Version(msgspec.Struct, frozen=True):
    """A manifest that was in force from ``time`` on."""

    fingerprint: str
    time: datetime


class Line(msgspec.Struct, frozen=True):
    """A line of two texts side by side. ``kind``: same, changed, added or removed."""

    kind: str
    old: str
    new: str
    # 0: no line on this side.
    old_number: int
    new_number: int


@page("manifest")
async def show(request: Request, deployment: Deployment) -> View:
    """Show a section as a table, or the entries of all sections that contain a word."""
    section = request.query_params.get("section", "Packages")
    word = request.query_params.get("q", "")
    in_force = await deployment.in_force()
    tree = _tree(in_force.manifest)
    rows = [row for name, value in _entries(tree, section) if _has(row := _row(name, value), word)]
    values = {
        "counts": {each: len(_section(tree, each)) for each in _SECTIONS},
        "chosen": section,
        "word": word,
        "rows": paged(request, rows),
        "config": _row("", _section(tree, "Config")).fields,
        "fingerprint": in_force.fingerprint,
        "view": "tables",
    }
    return View("manifest", values)


@page("manifest")
async def picture(request: Request, deployment: Deployment) -> View:
    """Show as a drawing who may read which secret, and which code receives the secret."""
    in_force = await deployment.in_force()
    focus = _focus(request, in_force)
    graph = await asyncio.to_thread(graph_of, in_force.manifest, focus, _MOST_NODES)
    values = {
        "drawing": drawing_of(graph),
        "graph": graph,
        "focus": focus,
        "fingerprint": in_force.fingerprint,
        "view": "picture",
    }
    return View("picture", values)


@page("manifest")
async def source(request: Request, deployment: Deployment) -> View:
    """Show the uploaded text of the manifest, or a YAML text with the same meaning."""
    as_yaml = request.query_params.get("as") == "yaml"
    in_force = await deployment.in_force()
    raw = in_force.manifest.raw
    text = await asyncio.to_thread(yaml_of if as_yaml else _as_uploaded, raw)
    values = {
        "blocks": _blocks(text),
        "as_yaml": as_yaml,
        "fingerprint": in_force.fingerprint,
        "view": "source",
    }
    return View("source", values)


def _blocks(text: str) -> list[str]:
    """Return ``text`` in blocks of lines, so that a browser lays out only the visible blocks."""
    lines = text.split("\n")
    return ["\n".join(lines[at : at + _BLOCK]) for at in range(0, len(lines), _BLOCK)]


@page("manifest")
async def compare(request: Request, deployment: Deployment) -> View:
    """Show two manifests side by side, and their differences in meaning.

    Each is the manifest in force, the pending manifest, an earlier manifest of the log, or a
    submitted text.
    """
    fields = fields_of(request) if request.method == "POST" else {}
    link, in_force = await deployment.link(), await deployment.in_force()
    pending = await link.coordinator.pending()
    known: dict[str, bytes] = {"in force": in_force.manifest.raw}
    if pending is not None:
        known["pending"] = pending.manifest
    left = fields.get("left", "in force")
    right = fields.get("right", "pending" if pending is not None else "")
    values: dict[str, Any] = {
        "known": tuple(known),
        "log": (log := await deployment.log.newest(link.coordinator)),
        "earlier": (earlier := _earlier(log, in_force.fingerprint)),
        "versions": {side: fields.get(f"{side}_version", "") for side in ("left", "right")},
        "left": left,
        "right": right,
        "texts": {side: fields.get(f"{side}_text", "") for side in ("left", "right")},
        "fingerprint": in_force.fingerprint,
        "view": "compare",
        "compared": None,
    }
    if not right:
        return View("compare", values)
    # A form field names a manifest on each side.
    for side, chosen in (("left", left), ("right", right)):
        version = fields.get(f"{side}_version", "")
        if chosen == "earlier" and version in (each.fingerprint for each in earlier):
            known[version] = await earlier_manifest(link.coordinator, version)
    old = _side(fields, "left", left, known)
    new = _side(fields, "right", right, known)
    return View("compare", {**values, "compared": await asyncio.to_thread(_compared, old, new)})


@page("manifest")
async def older(request: Request, deployment: Deployment) -> Response:
    """Read older entries of the log, to offer earlier manifests."""
    del request
    await deployment.log.older((await deployment.link()).coordinator)
    return redirect(deployment, "manifest/compare")


def _compared(old: bytes, new: bytes) -> dict[str, Any]:
    before, after = decode(old), decode(new)
    changes = diff(before, after)
    return {
        "fingerprints": (fingerprint(old), fingerprint(new)),
        "changes": [line for each in changes for line in difference.signed(each)],
        "summary": str(difference.summary(changes)),
        "losses": difference.losses(before, after),
        "lines": list(_side_by_side(yaml_of(old), yaml_of(new))),
    }


def _earlier(log: LogPart, in_force: str) -> list[Version]:
    """Return the manifests that were in force earlier, newest first."""
    found = [
        Version(leaf.manifest, datetime.fromtimestamp(leaf.time / 1_000_000, UTC))
        for leaf in log.leaves
        if isinstance(leaf, ManifestSet | ManifestUpdated)
    ]
    return [each for each in found if each.fingerprint != in_force]


def _side(fields: Mapping[str, str], side: str, named: str, known: Mapping[str, bytes]) -> bytes:
    if named == "text":
        return json_of(fields.get(f"{side}_text", ""))
    if named == "earlier":
        named = fields.get(f"{side}_version", "")
    if named not in known:
        raise NotFoundError(f"there is no manifest {named!r}", hint="load the page again")
    return known[named]


def _side_by_side(old: str, new: str) -> Iterator[Line]:
    before, after = old.splitlines(), new.splitlines()
    if len(before) + len(after) > _MOST_LINES:
        raise RefusedError(
            f"the two have more than {_MOST_LINES:,} lines",
            hint="keyhouse manifest diff compares them by meaning",
        )
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for kind, i1, i2, j1, j2 in matcher.get_opcodes():
        for step in range(max(i2 - i1, j2 - j1)):
            at, to = i1 + step, j1 + step
            has_old, has_new = at < i2, to < j2
            yield Line(
                "same" if kind == "equal" else _kind(has_old, has_new),
                before[at] if has_old else "",
                after[to] if has_new else "",
                at + 1 if has_old else 0,
                to + 1 if has_new else 0,
            )


def _kind(has_old: bool, has_new: bool) -> str:  # noqa: FBT001 both are said of a line
    return "changed" if has_old and has_new else "removed" if has_old else "added"


def _as_uploaded(raw: bytes) -> str:
    return msgspec.json.format(raw, indent=2).decode()


def _tree(manifest: Manifest) -> dict[str, Any]:
    found = read_json(manifest.raw)
    return found if isinstance(found, dict) else {}


def _section(tree: Mapping[str, Any], section: str) -> Mapping[str, Any]:
    """Return a section. Names of fields match in any case."""
    for name, value in tree.items():
        if name.casefold() == section.casefold() and isinstance(value, dict):
            return value
    return {}


def _entries(tree: Mapping[str, Any], section: str) -> Iterator[tuple[str, Any]]:
    yield from sorted(_section(tree, section).items())


def _row(name: str, value: Any) -> Row:
    if not isinstance(value, dict):
        return Row(name, (("", _short(value)),))
    return Row(name, tuple(_fields("", value)))


def _fields(before: str, value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each field that is not an object, for example ``Env TOKEN`` of ``Parameters``."""
    for field, one in value.items():
        name = f"{before} {field}".strip()
        if isinstance(one, dict) and one:
            yield from _fields("" if field in _OPENED else name, one)
        else:
            yield name, _short(one)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _has(row: Row, word: str) -> bool:
    wanted = word.casefold()
    return wanted in row.name.casefold() or any(
        wanted in text.casefold() for pair in row.fields for text in pair
    )


def _focus(request: Request, in_force: InForce) -> Node | None:
    section = request.query_params.get("section", "")
    name = request.query_params.get("of", "")
    if not section:
        return None
    members = _section(_tree(in_force.manifest), section)
    if name not in members:
        raise NotFoundError(f"the manifest has no {name!r} in {section}")
    return Node(section, name)
