"""The engine refuses a first manifest that the settings do not admit."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.samples.crafted import keys_of_a_root
from support.samples.deployment import (
    MACHINE,
    NOW,
    manifest,
    new_process,
    running_engine,
    set_manifest,
)

from keyhouse.base.errors import ForbiddenError
from keyhouse.base.secret import Secret
from keyhouse.coordinator import Engine, FirstManifestRule, Phase
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.decide import decide, start
from keyhouse.coordinator.core.events import ManifestSet
from keyhouse.coordinator.core.state import AcceptingManifest
from keyhouse.coordinator.prepare import prepare_manifest
from keyhouse.manifest import fingerprint

ANOTHER_MACHINE = Secret(b"quite another machine's secret..")


def engine_with(
    path: Path, rule: FirstManifestRule, machine: Secret = MACHINE
) -> AbstractAsyncContextManager[Engine]:
    process = replace(new_process(), first_manifest=rule)
    return running_engine(path, machine=machine, process=process)


async def test_a_command_for_another_manifest_than_the_claimed_is_refused(tmp_path: Path) -> None:
    rule = FirstManifestRule(claim=fingerprint(manifest(2)))
    async with engine_with(tmp_path / "data", rule) as engine:
        with pytest.raises(ForbiddenError, match=fingerprint(manifest(1))):
            await set_manifest(engine, manifest(1))
        assert engine.view.phase is Phase.ACCEPTING_MANIFEST
        view = await set_manifest(engine, manifest(2))
        assert view.running.manifest == manifest(2)


def test_the_first_manifest_is_recorded_with_the_start_of_its_process() -> None:
    context = Context(
        now=NOW, platform="test", instance=b"i" * 16, version="0.1.0", measurement=bytes(32)
    )
    accepting = AcceptingManifest(keys_of_a_root())
    command = prepare_manifest(accepting, manifest(), now=NOW)
    first, second, third = decide(accepting, command, context)
    assert isinstance(first, ManifestSet)
    assert second == command.log_key.begun(NOW)
    assert third == start(context)


async def test_one_byte_more_is_another_manifest(tmp_path: Path) -> None:
    rule = FirstManifestRule(claim=fingerprint(manifest(2)))
    async with engine_with(tmp_path / "data", rule) as engine:
        with pytest.raises(ForbiddenError):
            await set_manifest(engine, manifest(2) + b"\n")


@pytest.mark.parametrize("claimed", [False, True], ids=["any", "claimed"])
async def test_in_recovery_mode_none_is_taken_if_so_told(
    tmp_path: Path,
    claimed: bool,  # noqa: FBT001 a column of the table
) -> None:
    path = tmp_path / "data"
    async with running_engine(path) as engine:
        await set_manifest(engine, manifest(1))
    claim = fingerprint(manifest(2)) if claimed else ""
    rule = FirstManifestRule(claim=claim, allowed_in_recovery=False)
    async with engine_with(path, rule, ANOTHER_MACHINE) as engine:
        assert engine.view.phase is Phase.RECOVERY
        with pytest.raises(ForbiddenError, match="--no-new-manifest-in-recovery"):
            await set_manifest(engine, manifest(2))
    async with running_engine(path) as engine:
        assert engine.view.running.manifest == manifest(1)


async def test_the_rule_does_not_look_at_a_state_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "data"
    async with running_engine(path) as engine:
        await set_manifest(engine, manifest(1))
    async with engine_with(path, FirstManifestRule("0" * 64, allowed_in_recovery=False)) as engine:
        assert engine.view.phase is Phase.RUNNING
