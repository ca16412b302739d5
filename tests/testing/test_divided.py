"""The divided thresholds exist: a renamed constant fails here, not in a run with divided ones."""

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.process.divided import THRESHOLDS


@pytest.mark.parametrize(("module", "names"), THRESHOLDS.items(), ids=list(THRESHOLDS))
def test_each_threshold_is_a_constant_of_its_module(module: str, names: tuple[str, ...]) -> None:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_bytes())
    targets = [
        *(each.target for each in tree.body if isinstance(each, ast.AnnAssign)),
        *(target for each in tree.body if isinstance(each, ast.Assign) for target in each.targets),
    ]
    constants = {target.id for target in targets if isinstance(target, ast.Name)}

    assert set(names) - constants == set()
