"""A coordinator on Gramine's files: its quotes, its state over restarts, its warning."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.samples.deployment import engine_over, manifest, new_process, set_manifest
from support.samples.hardware import Gramine
from support.samples.recovery import holders, recoverable

from keyhouse.attestation import quote_binding, read_form, report_data
from keyhouse.attestation.kinds.table import read_report
from keyhouse.attestation.platforms.gramine import GraminePlatform, open_gramine
from keyhouse.coordinator import Engine, Phase
from keyhouse.journal import DirectoryStorage
from keyhouse.server.process.open_state import sealing_note
from keyhouse.server.services.quotes import Quotes


@pytest.fixture
def gramine(tmp_path: Path) -> Gramine:
    return Gramine(tmp_path / "attestation")


@asynccontextmanager
async def coordinator(platform: GraminePlatform, path: Path) -> AsyncIterator[Engine]:
    storage = await DirectoryStorage.open(
        path,
        platform_kind=platform.kind,
        sealing_key=platform.sealing_key,
    )
    async with engine_over(storage, process=new_process(platform.kind)) as engine:
        yield engine


async def test_state_is_kept_over_restarts_and_lost_with_the_key(
    gramine: Gramine, tmp_path: Path
) -> None:
    with gramine.running() as files:
        platform = open_gramine(files)
    async with coordinator(platform, tmp_path / "data") as engine:
        await set_manifest(engine, manifest(1))
    async with coordinator(platform, tmp_path / "data") as engine:
        assert engine.view.phase is Phase.RUNNING
    gramine.put("keys/_sgx_mrsigner", os.urandom(16))  # as after an update of microcode
    async with coordinator(platform, tmp_path / "data") as engine:
        assert engine.view.phase is Phase.RECOVERY


async def test_concurrent_nonces_get_each_a_quote_of_its_own(
    gramine: Gramine, tmp_path: Path
) -> None:
    nonces = [os.urandom(16) for _ in range(20)]
    with gramine.running() as files:
        platform = open_gramine(files)
        async with coordinator(platform, tmp_path / "data") as engine:
            keys = engine.view.state.keys
            quotes = Quotes(platform, keys)
            answers = await asyncio.gather(*(quotes.fresh(keys, nonce) for nonce in nonces))
            quotes.close()
    for nonce, answer in zip(nonces, answers, strict=True):
        found = read_report(read_form(answer.quote)).report_data
        assert found == report_data(quote_binding(keys.root_cert, nonce))


@pytest.mark.parametrize(
    ("raw", "warned"),
    [
        (manifest(1), True),
        (recoverable(holders(1)), False),
        (recoverable([], Config={"SealMode": "UniqueKey"}), True),
    ],
    ids=["no recovery keys", "recovery keys", "UniqueKey"],
)
async def test_only_without_recovery_keys_is_the_operator_warned(
    gramine: Gramine, tmp_path: Path, raw: bytes, *, warned: bool
) -> None:
    with gramine.running() as files:
        platform = open_gramine(files)
    async with coordinator(platform, tmp_path / "data") as engine:
        assert "loses the state" in sealing_note("gramine", engine.view.state)
        assert sealing_note("simulation", engine.view.state) == ""
        await set_manifest(engine, raw)
        assert bool(sealing_note("gramine", engine.view.state)) is warned
