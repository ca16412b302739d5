"""The model of root keys shows the stopped attacks of each rule."""

import pytest

from models.origin.runs import RUNS, Run
from models.origin.search import search

QUICK = [run for run in RUNS if run.is_quick]


@pytest.mark.parametrize("run", QUICK, ids=lambda run: run.name)
def test_a_run_of_the_model_breaks_the_clients_that_it_is_expected_to(run: Run) -> None:
    found = search(run.scene, run.rules, run.goal, run.clients)
    assert found.traces.keys() == run.broken, found.traces
