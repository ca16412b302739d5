"""The page Manifest: the manifest in force as tables, picture and source, and comparisons."""

import asyncio
import difflib
import itertools
import operator
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from keyhouse.base.errors import KeyhouseError, NotFoundError, RefusedError
from keyhouse.client import TrustError, UnreachableError
from keyhouse.console.deployments import ConsoleDeployment, Link, ManifestInForce
from keyhouse.console.manifest_text import json_of, located, yaml_of
from keyhouse.console.page import TemplateView, fields_of, page, paged, redirect, status_of
from keyhouse.console.picture import drawing_of
from keyhouse.console.public_log import LogPart, earlier_manifest
from keyhouse.console.secret_access import Node, graph_of
from keyhouse.manifest import Manifest, decode, fingerprint
from keyhouse.manifest.diff import diff
from keyhouse.transparency.leaf import ManifestSetLeaf, ManifestUpdatedLeaf
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
# Unchanged lines that a comparison shows around each change.
_AROUND: Final = 3
# Lines of a block of the source. The style sheet reserves the height of this number.
_BLOCK: Final = 200


class ManifestRow(msgspec.Struct, frozen=True):
    """A row of a table: an element of the manifest with its fields, pairs of name and value.

    Long values are shortened.
    """

    name: str
    fields: tuple[tuple[str, str], ...]


class Version(msgspec.Struct, frozen=True):
    """A manifest that was in force from ``time`` on."""

    fingerprint: str
    time: datetime


class DiffLine(msgspec.Struct, frozen=True):
    """A line of a comparison of two manifests: the text in the old and in the new manifest.

    ``kind`` is "same", "changed", "added" or "removed".
    """

    kind: str
    old: str
    new: str
    # 0: no line on this side.
    old_number: int
    new_number: int


class Part(msgspec.Struct, frozen=True):
    """Consecutive lines of a comparison of two manifests.

    If ``folded``, no line is changed, and the page shows the lines on request only.
    """

    folded: bool
    lines: tuple[DiffLine, ...]


@page("manifest")
async def show(request: Request, deployment: ConsoleDeployment) -> TemplateView:
    """Show a section of the manifest as a table, or only its elements with a word."""
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
    return TemplateView("manifest", values)


@page("manifest")
async def picture(request: Request, deployment: ConsoleDeployment) -> TemplateView:
    """Show a drawing: who may read or write each secret, and which code receives the secret."""
    in_force = await deployment.in_force()
    focus, word = _focus(request, in_force), request.query_params.get("q", "")
    graph = await asyncio.to_thread(graph_of, in_force.manifest, focus, word, _MOST_NODES)
    values = {
        "word": word,
        "drawing": drawing_of(graph),
        "graph": graph,
        "focus": focus,
        "fingerprint": in_force.fingerprint,
        "view": "picture",
    }
    return TemplateView("picture", values)


@page("manifest")
async def source(request: Request, deployment: ConsoleDeployment) -> TemplateView:
    """Show the uploaded JSON of the manifest, or a YAML text with the same meaning."""
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
    return TemplateView("source", values)


def _blocks(text: str) -> list[str]:
    """Divide ``text`` into blocks of 200 lines: a browser lays out only the visible blocks."""
    lines = text.split("\n")
    return ["\n".join(lines[at : at + _BLOCK]) for at in range(0, len(lines), _BLOCK)]


@page("manifest")
async def compare(request: Request, deployment: ConsoleDeployment) -> TemplateView:
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
    log = await deployment.log.newest(link.coordinator)
    earlier = _earlier(log, in_force.fingerprint)
    # Without a choice: the pending update, or else the newest change.
    left, right = "in force", "pending" if pending is not None else ""
    if pending is None and earlier:
        left, right = "earlier", "in force"
    newest = earlier[0].fingerprint if earlier else ""
    values: dict[str, Any] = {
        "known": tuple(known),
        "log": log,
        "earlier": earlier,
        "versions": {side: fields.get(f"{side}_version", newest) for side in ("left", "right")},
        "left": fields.get("left", left),
        "right": fields.get("right", right),
        "texts": {side: fields.get(f"{side}_text", "") for side in ("left", "right")},
        "fingerprint": in_force.fingerprint,
        "view": "compare",
        "compared": None,
        "error": None,
        "problems": (),
    }
    if not values["right"]:
        return TemplateView("compare", values)
    try:
        return TemplateView("compare", {**values, "compared": await _chosen(link, values, known)})
    except (TrustError, UnreachableError):
        raise
    except KeyhouseError as error:
        # Without a choice of the user, the log can lack the newest earlier manifest.
        if request.method == "GET" and isinstance(error, NotFoundError):
            return TemplateView("compare", values)
        side = "right" if values["right"] == "text" else "left"
        problems = located(values["texts"][side], getattr(error, "problems", ()))
        return TemplateView(
            "compare", {**values, "error": error, "problems": problems}, status_of(error)
        )


async def _chosen(
    link: Link, values: Mapping[str, Any], known: Mapping[str, bytes]
) -> dict[str, Any]:
    """Return the comparison of the manifests that a form selects for the left and the right side.

    ``values``: the fields of the form. ``known``: the manifest in force and the pending manifest,
    by the word in the form. Earlier manifests come from the log, by the session ``link``.
    """
    found: list[bytes] = []
    for side in ("left", "right"):
        chosen, version = values[side], values["versions"][side]
        if chosen == "earlier" and version in (each.fingerprint for each in values["earlier"]):
            found.append(await earlier_manifest(link.coordinator, version))
        else:
            found.append(await asyncio.to_thread(_side, chosen, values["texts"][side], known))
    return await asyncio.to_thread(_compared, *found)


@page("manifest")
async def older(request: Request, deployment: ConsoleDeployment) -> Response:
    """Read older leaves of the transparency log, so that the page offers earlier manifests."""
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
        "parts": _folded(list(_side_by_side(yaml_of(old), yaml_of(new)))),
    }


def _earlier(log: LogPart, in_force: str) -> list[Version]:
    """Return the manifests in ``log`` that were in force earlier, newest first.

    ``in_force`` is the fingerprint (hex) of the manifest in force.
    """
    found = [
        Version(leaf.manifest, datetime.fromtimestamp(leaf.time / 1_000_000, UTC))
        for leaf in log.leaves
        if isinstance(leaf, ManifestSetLeaf | ManifestUpdatedLeaf)
    ]
    return [each for each in found if each.fingerprint != in_force]


def _side(chosen: str, text: str, known: Mapping[str, bytes]) -> bytes:
    if chosen == "text":
        return json_of(text)
    if chosen not in known:
        raise NotFoundError(f"there is no manifest {chosen!r}", hint="load the page again")
    return known[chosen]


def _side_by_side(old: str, new: str) -> Iterator[DiffLine]:
    before, after = old.splitlines(), new.splitlines()
    if len(before) + len(after) > _MOST_LINES:
        raise RefusedError(
            f"the two manifests have more than {_MOST_LINES:,} lines together",
            hint="compare them by meaning: keyhouse manifest diff",
        )
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for kind, i1, i2, j1, j2 in matcher.get_opcodes():
        for step in range(max(i2 - i1, j2 - j1)):
            at, to = i1 + step, j1 + step
            has_old, has_new = at < i2, to < j2
            yield DiffLine(
                "same" if kind == "equal" else _kind(has_old, has_new),
                before[at] if has_old else "",
                after[to] if has_new else "",
                at + 1 if has_old else 0,
                to + 1 if has_new else 0,
            )


def _folded(lines: list[DiffLine]) -> list[Part]:
    """Divide ``lines`` into parts. Unchanged lines are folded, except three beside a change."""
    near = [False] * len(lines)
    for at, line in enumerate(lines):
        if line.kind != "same":
            near[max(0, at - _AROUND) : at + _AROUND + 1] = [True] * (
                min(len(lines), at + _AROUND + 1) - max(0, at - _AROUND)
            )
    grouped = itertools.groupby(zip(near, lines, strict=True), key=operator.itemgetter(0))
    return [Part(not is_near, tuple(line for _, line in group)) for is_near, group in grouped]


def _kind(has_old: bool, has_new: bool) -> str:  # noqa: FBT001 both are said of a line
    return "changed" if has_old and has_new else "removed" if has_old else "added"


def _as_uploaded(raw: bytes) -> str:
    return msgspec.json.format(raw, indent=2).decode()


def _tree(manifest: Manifest) -> dict[str, Any]:
    found = read_json(manifest.raw)
    return found if isinstance(found, dict) else {}


def _section(tree: Mapping[str, Any], section: str) -> Mapping[str, Any]:
    """Return the section ``section`` of the manifest ``tree``; empty if missing.

    Names of sections match in any case of letters.
    """
    for name, value in tree.items():
        if name.casefold() == section.casefold() and isinstance(value, dict):
            return value
    return {}


def _entries(tree: Mapping[str, Any], section: str) -> Iterator[tuple[str, Any]]:
    yield from sorted(_section(tree, section).items())


def _row(name: str, value: Any) -> ManifestRow:
    if not isinstance(value, dict):
        return ManifestRow(name, (("", _short(value)),))
    return ManifestRow(name, tuple(_fields("", value)))


def _fields(before: str, value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield name and value of each field in ``value``, also of fields in inner objects.

    The name of an inner field begins with the name of its object, for example ``Env TOKEN``.
    ``before`` is this beginning.
    """
    for field, one in value.items():
        name = f"{before} {field}".strip()
        if isinstance(one, dict) and one:
            yield from _fields("" if field in _OPENED else name, one)
        else:
            yield name, _short(one)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _has(row: ManifestRow, word: str) -> bool:
    wanted = word.casefold()
    return wanted in row.name.casefold() or any(
        wanted in text.casefold() for pair in row.fields for text in pair
    )


def _focus(request: Request, in_force: ManifestInForce) -> Node | None:
    section = request.query_params.get("section", "")
    name = request.query_params.get("of", "")
    if not section:
        return None
    members = _section(_tree(in_force.manifest), section)
    if name not in members:
        raise NotFoundError(
            f"the manifest in force has no {name!r} in {section}", hint="load the page again"
        )
    return Node(section, name)
