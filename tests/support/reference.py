"""Generates parts of the reference pages from code. Run this module to write the parts again.

A page has pairs of marks, ``<!-- generated: NAME -->`` and ``<!-- end -->``. The result of
``SECTIONS[NAME]`` is between the marks.
"""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

import msgspec

from keyhouse import server
from keyhouse.authority import CoordinatorKeys, RecoveryMaterial, StoredSecret
from keyhouse.authority.recovery.shares import RecoveryHolder
from keyhouse.base import errors
from keyhouse.base.process.flags import Setting
from keyhouse.base.secret import Secret
from keyhouse.client import errors as client_errors
from keyhouse.client.errors import REASONS
from keyhouse.client.http.retries import AGAIN, Failure
from keyhouse.client.methods import Methods
from keyhouse.coordinator.core.events import Uploaded
from keyhouse.coordinator.core.phases import TABLE
from keyhouse.coordinator.core.state import PendingUpdate
from keyhouse.coordinator.hand_off import notes as hand_off_notes
from keyhouse.evidence.gaps import Claim, Gap
from keyhouse.journal import chain
from keyhouse.journal.chain import index_mac_key, key_check, record_key
from keyhouse.journal.directory import index_file, sealing, tombstone
from keyhouse.journal.store.protocol import first_link
from keyhouse.journal.store.sqlite_file import _SCHEMA, _SETTINGS
from keyhouse.launcher.settings import RUN_SETTINGS
from keyhouse.manifest import templates
from keyhouse.manifest.source.schema import manifest_schema
from keyhouse.server.client_api import ROUTES, Route
from keyhouse.server.metrics.names import METRICS
from keyhouse.server.net.error_mapping import ERRORS
from keyhouse.server.process.settings import SETTINGS
from keyhouse.wire.plan import Effect
from support.openapi.document import openapi
from support.pages import command_reference
from support.pages.effects import MEANINGS
from support.pages.trusted_code import section

__all__ = ["DOCUMENTS", "REFERENCE", "SECTIONS", "renewed", "served_openapi"]

# The module. ``keyhouse.authority`` exports a function with this name.
recovery_index = import_module("keyhouse.authority.recovery.index")

REFERENCE: Final = Path(__file__).parents[2] / "docs" / "reference"

_MARKED: Final = re.compile(r"(<!-- generated: ([a-z ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def renewed(page: str) -> str:
    """Return ``page`` with each section generated again."""
    return _MARKED.sub(lambda found: f"{found[1]}\n{SECTIONS[found[2]]()}\n{found[3]}", page)


def _layout(module: ModuleType) -> str:
    """Return the first literal block of a module's docstring as a fenced block."""
    text = inspect.cleandoc(module.__doc__ or "").partition("::\n")[2]
    lines: list[str] = []
    for line in text.lstrip("\n").splitlines():
        if line and not line.startswith("    "):
            break
        lines.append(line[4:])
    body = "\n".join(lines).rstrip("\n")
    return f"```\n{body}\n```\n"


def _settings(settings: Iterable[Setting]) -> str:
    rows = (
        (
            f"`{setting.flag}`",
            setting.kind,
            f"`{setting.default}`" if setting.default else "off",
            ", ".join(f"`{name}`" for name in setting.variables) or "none",
            setting.help,
        )
        for setting in settings
    )
    return _table(("Flag", "Class", "Default", "Variables, in order", "Meaning"), rows)


def _routes() -> str:
    rows = (
        (
            route.method,
            f"`{route.path}`",
            route.caller.value,
            route.gate.value if route.gate else "",
            f"{route.body_limit:,}" if route.write else "",
            _answer(route),
        )
        for route in ROUTES
    )
    return _table(("Method", "Path", "Who may call", "Feature gate", "Body, bytes", "Answer"), rows)


def _answer(route: Route) -> str:
    return "410, moved" if route.path == "/recover" else "yes"


def _metrics() -> str:
    rows = (
        (
            f"`{metric.name}`",
            metric.kind,
            ", ".join(f"`{label}`" for label in metric.labels),
            metric.help,
        )
        for metric in METRICS.values()
    )
    return _table(("Name", "Kind", "Labels", "Meaning"), rows)


def _errors() -> str:
    rows = (
        (
            f"`{kind.__name__}`",
            f"`{kind.code}`",
            str(row.http),
            row.word,
            row.grpc.name,
            inspect.cleandoc(kind.__doc__ or "").partition("\n")[0].replace("``", "`"),
        )
        for kind, row in ERRORS.items()
    )
    return _table(("Class", "Code", "HTTP", "JSend", "gRPC", "Meaning"), rows)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    columns = tuple(head)
    lines = [columns, ("---",) * len(columns), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines).rstrip("\n") + "\n"


def _values() -> str:
    kinds = {
        "keys": CoordinatorKeys,
        "value of a secret": StoredSecret,
        "upload": Uploaded,
        "recovery": RecoveryMaterial,
        "holder": RecoveryHolder,
        "pending": PendingUpdate,
    }
    rows = ((name, ", ".join(kind.__struct_fields__)) for name, kind in kinds.items())
    return _table(("Value", "Fields"), rows)


def _journal_values() -> str:
    dek, store_id = Secret(bytes(range(32))), bytes(range(0x20, 0x30))
    rows = (
        ("key of the records", record_key(dek, store_id, 1).reveal()),
        ("MAC key of the index", index_mac_key(dek, store_id, 1).reveal()),
        ("key check", key_check(dek, store_id, 1)),
        ("chain value before record 1", first_link(store_id)),
    )
    return _table(("Value", "Hex"), ((name, f"`{value.hex()}`") for name, value in rows))


def _sql() -> str:
    statements = "\n".join(f"{text};" for *_, text in _SCHEMA)
    return f"```sql\n{statements}\n```\n"


def _pragmas() -> str:
    statements = "\n".join(f"PRAGMA {name}={value};" for name, value, _ in _SETTINGS)
    return f"```sql\n{statements}\n```\n"


def _operations() -> str:
    def text(annotation: object) -> str:
        whole = annotation.__name__ if isinstance(annotation, type) else str(annotation)
        return re.sub(r"(?:\w+\.)+(\w+)", r"\1", whole).replace("|", "or")

    rows = []
    for name, operation in sorted(inspect.getmembers(Methods, inspect.isfunction)):
        if name.startswith("_"):  # a class has __annotate_func__ since Python 3.14
            continue
        signature = inspect.signature(operation)
        _, *parameters = signature.parameters.values()
        names = ", ".join(
            each.name if each.default is each.empty else f"{each.name}={each.default!r}"
            for each in parameters
        )
        does = inspect.cleandoc(operation.__doc__ or "").split("\n\n")[0].replace("\n", " ")
        result = text(signature.return_annotation).replace("NoneType", "None")
        rows.append((f"`{name}({names})`", f"`{result}`", does.replace("``", "`")))
    return _table(("Operation", "Result", "What it does"), rows)


def _plan_words() -> str:
    rows = ((f"`{effect.value}`", MEANINGS[effect]) for effect in Effect)
    return _table(("Word", "What happens"), rows)


def _reasons() -> str:
    return _table(
        ("HTTP", "`reason`"), ((str(status), f"`{reason}`") for status, reason in REASONS.items())
    )


def _tried_again() -> str:
    rows = (
        (str(what), *("yes" if (method, what) in AGAIN else "no" for method in ("GET", "POST")))
        for what in Failure
    )
    return _table(("What happened", "GET again", "POST again"), rows)


def _phases() -> str:
    rows = ((operation, *outcomes) for operation, outcomes in TABLE.items())
    return _table(("Operation", "1 recovery mode", "2 accepting manifest", "3 running"), rows)


def _named(kinds: Iterable[Gap | Claim]) -> str:
    rows = ((f"`{each}`", f"{each.text[:1].upper()}{each.text[1:]}") for each in kinds)
    return _table(("Name", "Meaning"), rows)


SECTIONS: Final[Mapping[str, Callable[[], str]]] = {
    "settings": lambda: _settings(SETTINGS),
    "trusted coordinator": lambda: section("coordinator"),
    "trusted launcher": lambda: section("launcher"),
    "launcher settings": lambda: _settings(RUN_SETTINGS),
    "phases": _phases,
    "routes": _routes,
    "errors": _errors,
    "metrics": _metrics,
    "error tree": lambda: _layout(errors),
    "sdk operations": _operations,
    "sdk errors": lambda: _layout(client_errors),
    "plan words": _plan_words,
    "sdk reasons": _reasons,
    "sdk retries": _tried_again,
    "record layout": lambda: _layout(chain),
    "sealed key layout": lambda: _layout(sealing),
    "index file layout": lambda: _layout(index_file),
    "tombstone layout": lambda: _layout(tombstone),
    "index content layout": lambda: _layout(recovery_index),
    "notes layout": lambda: _layout(hand_off_notes),
    "template grammar": lambda: _layout(templates),
    "values": _values,
    "evidence gaps": lambda: _named(Gap),
    "evidence claims": lambda: _named(Claim),
    "journal values": _journal_values,
    "sql": _sql,
    "pragmas": _pragmas,
    **command_reference.SECTIONS,
}

DOCUMENTS: Final[Mapping[str, Callable[[], str]]] = {
    "manifest.schema.json": lambda: _json(manifest_schema()),
    "openapi.json": lambda: _json(openapi(ROUTES)),
}
"""Files that are generated completely."""

SERVED: Final = Path(server.__file__).parent / "client_api" / "openapi.json"
"""The description of the interface, as the coordinator serves it."""


def served_openapi() -> bytes:
    """Return the content of ``SERVED``."""
    return msgspec.json.encode(openapi(ROUTES)) + b"\n"


def _json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name, made in DOCUMENTS.items():
        (REFERENCE / name).write_text(made(), encoding="utf-8")
    SERVED.write_bytes(served_openapi())
    for path in sorted(REFERENCE.glob("*.md")):
        path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")
