"""The reference says what the code does: tables and layouts are compared, numbers looked up."""

import re
from importlib import import_module
from pathlib import Path

import msgspec
import pytest
from support.process.divided import divided
from support.reference import REFERENCE, SECTIONS, renewed

from keyhouse.coordinator.core.events import Event
from keyhouse.manifest import Action, FeatureGate, ResourceType, SealMode
from keyhouse.server.net.limits import Limits, WorkloadLimits
from keyhouse.wire.secret_types import SecretType

_PAGES = sorted(REFERENCE.glob("*.md"))
_LIMIT = re.compile(
    r"^\| [^|]+ \| ([0-9,]+)(?: (?:bytes|bytes/s|bits|characters|s|ms))? \|[^|]*"
    r"\| `(keyhouse[a-z_0-9.]*)\.([A-Za-z_.]+)` \|$"
)


def _page(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", _PAGES, ids=lambda path: path.stem)
def test_generated_sections_are_as_the_code_has_them(path: Path) -> None:
    page = path.read_text(encoding="utf-8")

    assert page == renewed(page), "renew it: PYTHONPATH=tests .venv/bin/python -m support.reference"


def test_every_generated_section_is_in_one_page() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in _PAGES)

    marks = re.findall(r"<!-- generated: ([a-z ]+) -->", text)

    assert sorted(marks) == sorted(SECTIONS)


def _limits() -> list[tuple[str, str, int]]:
    rows = filter(None, map(_LIMIT.match, _page("limits.md").splitlines()))
    return [(row[2], row[3], int(row[1].replace(",", ""))) for row in rows]


@pytest.mark.parametrize(
    ("module", "name", "written"), _limits(), ids=lambda value: str(value).rpartition(".")[2]
)
def test_limit_is_what_the_code_has(module: str, name: str, written: int) -> None:
    holder, _, field = name.rpartition(".")
    home = import_module(module)

    found = getattr(getattr(home, holder)(), field) if holder else getattr(home, name)

    assert found == divided(module, name, written)


@pytest.mark.parametrize("kind", [Limits, WorkloadLimits])
def test_every_limit_of_a_listener_is_written_down(kind: type[Limits | WorkloadLimits]) -> None:
    rows = [name.partition(".") for _, name, _ in _limits()]
    written = [field for holder, _, field in rows if holder == kind.__name__]

    assert written == list(kind.__struct_fields__)


def test_no_row_of_limits_is_left_unread() -> None:
    rows = [line for line in _page("limits.md").splitlines() if "`keyhouse." in line]

    assert len(rows) == len(_limits())


@pytest.mark.parametrize(
    "word", [*SecretType, *Action, *ResourceType, *SealMode, *FeatureGate], ids=str
)
def test_word_of_the_manifest_is_explained(word: str) -> None:
    assert f"`{word}`" in _page("manifest.md")


@pytest.mark.parametrize("kind", Event.__args__, ids=lambda kind: str(kind.__name__))
def test_event_of_the_journal_has_a_row(kind: type[msgspec.Struct]) -> None:
    tag = kind.__struct_config__.tag
    rows = [row for row in _page("journal-format.md").splitlines() if row.startswith(f"| `{tag}`")]

    assert len(rows) == 1
    assert tag == "manifest-set" or all(field in rows[0] for field in kind.__struct_fields__)
