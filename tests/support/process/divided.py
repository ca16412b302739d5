"""Smaller thresholds for a run of the tests: ``KEYHOUSE_TESTS_DIVIDED=10`` divides them by ten.

A quick machine reaches thresholds that a slow one does not: it compacts, renews and forgets in the
middle of a test. The verdict of a test must not depend on that. With this variable the thresholds
come ten times earlier, on any machine.

Only the tests read the variable. An import hook of theirs divides the constants below when an
interpreter of the tests first imports the modules: the one of pytest, and those that fork
``keyhouse`` processes. A process with an interpreter of its own has the true thresholds.
"""

import ast
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Final, TypeVar

__all__ = ["divide", "divided"]

THRESHOLDS: Final[Mapping[str, Sequence[str]]] = {
    # Compaction, and the pieces of a base.
    "keyhouse.journal.journal": ("_LIGHTEST_BASE",),
    "keyhouse.journal.epoch_reader": ("_INLINE",),
    "keyhouse.journal.store.protocol": ("KEPT_PLACES",),
    "keyhouse.journal.store.postgres_statements": ("_PIECE_RECORDS", "_PIECE_BYTES"),
    "keyhouse.journal.store.sqlite": ("_BATCH_BYTES",),
    "keyhouse.coordinator.core.base": (
        *("SECRET_BYTES", "LOG_LINES", "AUDIT_LINES", "LEAVES", "COUNTS"),
    ),
    "keyhouse.coordinator.core.update_log": ("AUDIT_KEPT", "AUDIT_SLACK", "AUDIT_BYTES"),
    "keyhouse.coordinator.engine.records": ("_INLINE",),
    "keyhouse.coordinator.engine.writer": ("HEAD_EVERY", "PATIENCE"),
    # Batches.
    "keyhouse.coordinator.engine.work_queue": ("DELAY", "MANY", "TOGETHER", "BATCH"),
    # Leases of witnesses, and cosignatures that are renewed.
    "keyhouse.manifest.model": ("LEASE_SECONDS", "LEASE_OPERATIONS"),
    "keyhouse.coordinator.lease": ("MOST_WAITING",),
    "keyhouse.coordinator.witnessing.task": ("REFRESH_SECONDS", "BATCH_SECONDS"),
    # Caches and what is remembered.
    "keyhouse.attestation.collateral.cache": ("MOST_KEPT",),
    "keyhouse.attestation.sources.pccs_source": (
        *("SEEN_WITHIN", "NEAR_END_AGAIN", "FAILED_WITHIN", "MOST_FAILED", "REFRESH_CHECK"),
    ),
    "keyhouse.client.memory.states": ("MOST_PLACES", "MOST_HEADS"),
    "keyhouse.console.pages.trust": ("_AGE",),
    "keyhouse.server.client_api.public_log": ("KEPT",),
    "keyhouse.server.services.events": ("MOST", "MOST_BYTES", "MOST_REFUSALS"),
    "keyhouse.server.services.quote_checks": ("REMEMBERED", "REMEMBERED_FOR"),
    "keyhouse.server.process.replicas": ("PUBLISH_EVERY",),
    "keyhouse.server.process.supervisor": ("SETTLED",),
}
"""The constants by module: each is a number or a duration after which something ordinary happens.

Limits whose excess is an error, and times until somebody gives up, are not among them.
"""


def divide(by: str) -> None:
    """Divide the thresholds in what this interpreter imports from now on; empty: leave them."""
    if by:
        early = THRESHOLDS.keys() & sys.modules.keys()
        assert not early, f"{sorted(early)} were imported before their thresholds were divided"
        sys.meta_path.insert(0, _Finder(int(by)))


def divided(module: str, name: str, value: int) -> int:
    """Return the value of a constant in this run; ``value`` is the one in the source."""
    finders = [each for each in sys.meta_path if isinstance(each, _Finder)]
    return value // finders[0].by if finders and name in THRESHOLDS.get(module, ()) else value


class _Finder:
    def __init__(self, by: int) -> None:
        self.by = by

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the usual specification with a loader that divides, for the modules above."""
        if name not in THRESHOLDS:
            return None
        spec = PathFinder.find_spec(name, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Loader(name, spec.origin, self.by)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, by: int) -> None:
        super().__init__(name, path)
        self._by = by

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the changed source. Bytecode files have the true thresholds."""
        tree = ast.parse(self.get_data(self.path))
        change = _Division(THRESHOLDS[fullname], self._by)
        change.visit(tree)
        assert not change.missing, f"{fullname} has no {sorted(change.missing)}"
        return compile(ast.fix_missing_locations(tree), self.path, "exec", dont_inherit=True)


Assignment = TypeVar("Assignment", ast.Assign, ast.AnnAssign)


class _Division(ast.NodeTransformer):
    """Writes ``NAME = value // by`` in place of ``NAME = value``, and ``value / by`` of floats."""

    def __init__(self, names: Sequence[str], by: int) -> None:
        self.missing = {*names}
        self._by = by

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node  # constants are not in functions

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        return self._divided(node, node.targets[0])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        return self._divided(node, node.target)

    def _divided(self, node: Assignment, target: ast.expr) -> Assignment:
        if isinstance(target, ast.Name) and target.id in self.missing:
            self.missing.remove(target.id)
            assert node.value is not None
            operation = ast.FloorDiv() if not _has_float(node.value) else ast.Div()
            node.value = ast.BinOp(node.value, operation, ast.Constant(self._by))
        return node


def _has_float(value: ast.expr) -> bool:
    return any(
        isinstance(each, ast.Constant) and isinstance(each.value, float) for each in ast.walk(value)
    )
