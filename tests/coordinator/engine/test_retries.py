"""A change prepared from a former state is prepared again, a limited number of times."""

from pathlib import Path

import pytest
from support.samples.deployment import NOW, manifest, running_engine

from keyhouse.base.errors import UnavailableError
from keyhouse.coordinator import Phase, State, View, until_current
from keyhouse.coordinator.core.state import Running
from keyhouse.coordinator.engine.engine import ATTEMPTS
from keyhouse.coordinator.prepare import prepare_manifest


@pytest.mark.parametrize("stale", range(ATTEMPTS + 1))
async def test_a_stale_change_is_prepared_again_a_few_times(tmp_path: Path, stale: int) -> None:
    async with running_engine(tmp_path / "other") as other:
        passed = other.view.state
    calls: list[State] = []

    async with running_engine(tmp_path / "data") as engine:

        async def change() -> View:
            state: State = passed if len(calls) < stale else engine.view.state
            calls.append(state)
            assert not isinstance(state, Running)
            return await engine.submit(prepare_manifest(state, manifest(), now=NOW))

        if stale < ATTEMPTS:
            view = await until_current(change, too_fast="too fast")
            assert view.running.manifest == manifest()
        else:
            with pytest.raises(UnavailableError, match="too fast"):
                await until_current(change, too_fast="too fast")
            assert engine.view.phase is Phase.ACCEPTING_MANIFEST
        assert len(calls) == min(stale + 1, ATTEMPTS)
