"""Generate the SDK's methods from the operations, for blocking calls and for asyncio.

Run the module as a program to write the methods.
"""

import ast
import subprocess
import sys
from pathlib import Path
from typing import Final

__all__ = ["METHODS", "methods"]

_SOURCE: Final = Path(__file__).parents[2] / "src/keyhouse/client/operations.py"
METHODS: Final = _SOURCE.with_name("methods.py")
"""The generated file."""

_MODULE: Final = '''"""The operations as methods: with blocking calls, and for asyncio.

Generated from ``operations``: PYTHONPATH=tests .venv/bin/python -m support.sdk_methods
"""

{imports}
from keyhouse.client import operations
from keyhouse.client.http.connection import BlockingConnection
from keyhouse.client.http.connection_async import AsyncConnection
'''
_BLOCKING: Final = '''

class Methods:
    """The operations on a verified coordinator.

    All operations raise ``TrustError`` if another peer answers, or if the state in the answer
    contradicts the memory. They raise ``UnreachableError`` without an answer, ``CallRefusedError``
    or ``ServiceUnavailableError`` for a refusal, and ``AnswerUnreadableError`` for an invalid
    answer.
    """

    _session: OperationSession
    _connection: BlockingConnection
'''
_ASYNC: Final = '''

class AsyncMethods:
    """The operations on a verified coordinator, on an event loop of asyncio.

    All operations raise the errors of ``Methods``.
    """

    _session: OperationSession
    _connection: AsyncConnection
'''


def methods() -> str:
    """Return the text of the file, formatted."""
    text = _SOURCE.read_text(encoding="utf-8")
    module = _MODULE.format(imports=_imports(ast.parse(text)))
    for head, is_async in ((_BLOCKING, False), (_ASYNC, True)):
        module += head + "".join(
            _method(node, is_async=is_async)
            for node in ast.parse(text).body
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        )
    return _formatted(module)


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
    """Return ``text`` in the project's style, without unused imports."""
    name = f"--stdin-filename={METHODS}"
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
    METHODS.write_text(methods(), encoding="utf-8")
