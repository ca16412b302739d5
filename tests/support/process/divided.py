"""Smaller thresholds for a run of the tests: ``KEYHOUSE_TESTS_DIVIDED=10`` divides them by ten.

A fast machine reaches thresholds that a slow machine does not reach: it compacts, renews or evicts
in the middle of a test. The verdict of a test must not depend on the speed. With this variable,
the thresholds come ten times earlier, on any machine.

Only the tests read the variable. Their import hook divides the constants below at the first import
in an interpreter of the tests: pytest's, and the interpreters that fork ``keyhouse`` processes. A
process with a new interpreter has the true thresholds.
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
    # Leases of witnesses, and the renewal of cosignatures.
    "keyhouse.manifest.model": ("LEASE_SECONDS", "LEASE_OPERATIONS"),
    "keyhouse.coordinator.lease": ("MOST_WAITING",),
    "keyhouse.coordinator.witnessing.task": ("REFRESH_SECONDS", "BATCH_SECONDS"),
    # Caches and memories.
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
"""The constants by module. At each number or duration, the code takes a usual action.

Limits that cause an error, and timeouts, are not in the table.
"""


def divide(by: str) -> None:
    """Divide the thresholds of all later imports in this interpreter; empty: no division."""
    if by:
        early = THRESHOLDS.keys() & sys.modules.keys()
        assert not early, f"{sorted(early)} were imported before their thresholds were divided"
        sys.meta_path.insert(0, _Finder(int(by)))


def divided(module: str, name: str, value: int) -> int:
    """Return a constant's value in this run; ``value`` is the value in the source."""
    finders = [each for each in sys.meta_path if isinstance(each, _Finder)]
    return value // finders[0].by if finders and name in THRESHOLDS.get(module, ()) else value


class _Finder:
    def __init__(self, by: int) -> None:
        self.by = by

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the usual specification with a dividing loader, for the modules above."""
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
        """Return the code of the changed source. Bytecode files would have the true thresholds."""
        tree = ast.parse(self.get_data(self.path))
        change = _Division(THRESHOLDS[fullname], self._by)
        change.visit(tree)
        assert not change.missing, f"{fullname} has no {sorted(change.missing)}"
        return compile(ast.fix_missing_locations(tree), self.path, "exec", dont_inherit=True)


Assignment = TypeVar("Assignment", ast.Assign, ast.AnnAssign)


class _Division(ast.NodeTransformer):
    """Replaces ``NAME = value`` by ``NAME = value // by``; for floats, by ``NAME = value / by``."""

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
