"""The code of the enclaves, for docs/reference/trusted-code.md: modules, libraries and sums."""

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path
from typing import Final, NamedTuple

from support.distributions import ROOT, TABLE
from support.installed import locked

__all__ = [
    "PROGRAMS",
    "Part",
    "code_lines",
    "installed_libraries",
    "libraries",
    "listed",
    "modules",
    "parts_below",
    "section",
]

PROGRAMS: Final = {"coordinator": "keyhouse-coordinator", "launcher": "keyhouse-launcher"}
"""The distribution of each program in an enclave."""

_SOURCES: Final = ROOT / "src"
_LISTS_OF_STATEMENTS: Final = ("body", "orelse", "finalbody", "handlers", "cases")


class Part(NamedTuple):
    """A module, or the Python files of a library: code lines, and a SHA-256 sum in hex."""

    name: str
    lines: int
    digest: str


def code_lines(text: str) -> int:
    """Return the number of lines with code. Blank lines, comments and docstrings have none."""
    lines = {
        number
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    }
    for node in _statements(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines -= set(range(node.lineno, (node.end_lineno or 0) + 1))
    return len(lines)


def _statements(module: ast.Module) -> Iterator[ast.AST]:
    """Yield all statements of a module.

    Only lists of statements are searched: nine of ten nodes are expressions.
    """
    waiting: list[ast.AST] = [module]
    while waiting:
        node = waiting.pop()
        yield node
        for name in _LISTS_OF_STATEMENTS:
            waiting += getattr(node, name, ())


_counted: Final[dict[str, int]] = {}
"""Lines with code by SHA-256 sum: programs and environments share most files."""


def _lines_of(content: bytes, digest: str) -> int:
    if digest not in _counted:
        _counted[digest] = code_lines(content.decode("utf-8"))
    return _counted[digest]


def parts_below(folder: Path) -> list[Part]:
    """Return each file of Keyhouse below ``folder``, which contains ``keyhouse/``.

    A file of data, such as the served description of the interface, has no lines with code.
    """
    found = []
    for path in sorted((folder / "keyhouse").rglob("*.*")):
        if path.suffix not in {".py", ".json", ".pem"}:
            continue
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        lines = _lines_of(content, digest) if path.suffix == ".py" else 0
        found.append(Part(path.relative_to(folder).as_posix(), lines, digest))
    return found


def modules(program: str, sources: Path = _SOURCES) -> list[Part]:
    """Return the modules of a program in an enclave."""
    wanted = TABLE.closure(PROGRAMS[program])
    return [each for each in parts_below(sources) if TABLE.owner(_module(each.name)) in wanted]


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def libraries(program: str) -> list[Part]:
    """Return the locked libraries of a program, with their versions."""
    names = locked(TABLE.rows[PROGRAMS[program]]["lock"])
    return [_library(name, distribution(name)) for name in names]


def installed_libraries(packages: Path) -> list[Part]:
    """Return the libraries in the folder ``packages`` of an environment, with their versions."""
    found = {
        re.sub(r"[-_.]+", "-", each.name).lower(): each
        for each in distributions(path=[str(packages)])
    }
    return [
        _library(name, found[name]) for name in sorted(found) if not name.startswith("keyhouse")
    ]


def _library(name: str, installed: Distribution) -> Part:
    contents = [
        Path(str(installed.locate_file(file))).read_bytes()
        for file in sorted(installed.files or (), key=str)
        if file.suffix == ".py" and file.parts[0] != ".."
    ]
    sums = [hashlib.sha256(each).hexdigest() for each in contents]
    digest = hashlib.sha256("".join(sums).encode("ascii")).hexdigest()
    lines = sum(map(_lines_of, contents, sums))
    return Part(f"{name} {installed.version}", lines, digest)


def listed(program: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the modules and the libraries of a program on the page, with their sums."""
    page = (ROOT / "docs" / "reference" / "trusted-code.md").read_text(encoding="utf-8")
    (text,) = re.findall(f"<!-- generated: trusted {program} -->(.*?)<!-- end -->", page, re.DOTALL)
    rows = dict(re.findall(r"\| `([^`]+)` \| [0-9,]+ \| `([0-9a-f]{64})`", text))
    own = {name: digest for name, digest in rows.items() if name.startswith("keyhouse/")}
    return own, {name: digest for name, digest in rows.items() if name not in own}


def section(program: str) -> str:
    """Return the tables of a program for the page."""
    own, others = modules(program), libraries(program)
    counts = (
        f"{len(own)} modules of Keyhouse with {_sum(own):,} lines; "
        f"{len(others)} libraries with {_sum(others):,} lines of Python.\n"
    )
    return "\n".join((counts, _table("Library and version", others), _table("Module", own)))


def _sum(parts: Iterable[Part]) -> int:
    return sum(each.lines for each in parts)


def _table(head: str, parts: Iterable[Part]) -> str:
    rows = (f"| `{each.name}` | {each.lines:,} | `{each.digest}` |\n" for each in parts)
    return f"| {head} | Lines | SHA-256 |\n|---|---|---|\n{''.join(rows)}"
