"""The model of running workloads: the product breaks no invariant, and each fault breaks one."""

import pytest

from models.lineages.invariants import INVARIANTS
from models.lineages.rules import PRODUCT
from models.lineages.runs import FAULTS, SCENES, Fault
from models.lineages.search import search


@pytest.mark.parametrize("name", SCENES)
def test_the_product_breaks_no_invariant(name: str) -> None:
    found = search(SCENES[name], PRODUCT)
    assert found.worlds > 1000
    assert not found.traces, found.traces


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_breaks_its_invariant(fault: Fault) -> None:
    found = search(fault.scene, fault.rules, fault.breaks)
    assert fault.breaks in found.traces


def test_each_invariant_has_a_fault() -> None:
    assert {each.name for each in INVARIANTS} == {each.breaks for each in FAULTS}
