"""The SDK's methods as the operations have them, for blocking calls and for asyncio.

Run it as a program to generate them.
"""

import ast
import subprocess
import sys
from pathlib import Path
from typing import Final

__all__ = ["METHODS", "methods"]

_SOURCE: Final = Path(__file__).parents[2] / "src/keyhouse/client/operations.py"
METHODS: Final = {
    _SOURCE.with_name("methods.py"): False,
    _SOURCE.with_name("methods_async.py"): True,
}
"""Each generated file, and whether it is for asyncio."""

_BLOCKING: Final = '''"""The operations as methods with blocking calls.

Generated from ``operations``: PYTHONPATH=tests .venv/bin/python -m support.sdk_methods
"""

{imports}
from keyhouse.client import operations
from keyhouse.client.http.connection import Connection

__all__ = ["Methods"]


class Methods:
    """What can be asked of a verified coordinator, or told to it.

    All raise ``TrustError`` if another peer answers, or if the state that came with the answer
    contradicts the memory; ``UnreachableError`` if there is no answer; ``CallRefusedError`` or
    ``ServiceUnavailableError`` if the coordinator says no; ``AnswerUnreadableError`` if its answer
    is invalid.
    """

    _session: Session
    _connection: Connection
'''
_ASYNC: Final = (
    _BLOCKING.replace("with blocking calls", "for asyncio")
    .replace("connection import Connection", "connection_async import AsyncConnection")
    .replace("_connection: Connection", "_connection: AsyncConnection")
    .replace("Methods", "AsyncMethods")
)


def methods(*, is_async: bool) -> str:
    """Return the text of the file, formatted."""
    tree = ast.parse(_SOURCE.read_text(encoding="utf-8"))
    public = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    ]
    head = (_ASYNC if is_async else _BLOCKING).format(imports=_imports(tree))
    text = head + "".join(_method(node, is_async=is_async) for node in public)
    return _formatted(text)


def _method(node: ast.FunctionDef, *, is_async: bool) -> str:
    """Return an operation as a method."""
    names = ["self._session", *(each.arg for each in node.args.args[1:])]
    node.args.args[0] = ast.arg("self")
    assert isinstance(node.returns, ast.Subscript)  # Steps[...]
    doc = (ast.get_docstring(node) or "").replace("\n", "\n        ")
    end = "\n        " if "\n" in doc else ""
    head = f"def {node.name}({ast.unparse(node.args)}) -> {ast.unparse(node.returns.slice)}:"
    return f'''
    {"async " * is_async}{head}
        """{doc}{end}"""
        return {"await " * is_async}self._connection.run(
            operations.{node.name}({", ".join(names)})
        )
'''


def _imports(tree: ast.Module) -> str:
    """Return the imports from other modules, used or not."""
    found = (node for node in tree.body if isinstance(node, ast.ImportFrom))
    own = (node.name for node in tree.body if isinstance(node, ast.ClassDef))
    return "\n".join(map(ast.unparse, found)) + "".join(
        f"\nfrom keyhouse.client.operations import {name}" for name in own
    )


def _formatted(text: str) -> str:
    """Return ``text`` in the style of the house, without imports that nothing uses."""
    name = f"--stdin-filename={_SOURCE.with_name('methods.py')}"
    fixed = ("check", "--quiet", "--fix")
    for words in ((*fixed, "--select=F401"), (*fixed, "--select=I"), ("format", "--quiet")):
        text = subprocess.run(
            [sys.executable, "-m", "ruff", *words, name, "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return text


if __name__ == "__main__":
    for path, is_async in METHODS.items():
        path.write_text(methods(is_async=is_async), encoding="utf-8")
