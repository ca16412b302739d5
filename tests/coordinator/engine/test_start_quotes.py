"""The leaf of a start and its quote: a missing quote fails no start."""

import shutil
from pathlib import Path

import pytest
from support.captured_log import capture_logs
from support.samples.deployment import manifest, running_engine, set_manifest

from keyhouse.attestation import start_report_data
from keyhouse.base.errors import BrokenError, KeyhouseError, UnavailableError
from keyhouse.coordinator import Engine, StartQuote
from keyhouse.transparency.leaf import StartedLeaf, object_name, read_leaf
from keyhouse.transparency.tiles import ENTRIES, Tile, bundled
from keyhouse.transparency.tree import Frontier, leaf_hash


async def starts(engine: Engine) -> list[tuple[StartedLeaf, Frontier]]:
    """Return each leaf of a start, with the log before this leaf."""
    log = engine.view.running.public_log
    assert log is not None
    raw = await engine.writer.public_log.tile(Tile(ENTRIES, 0, log.frontier.size))
    entries = bundled(raw, log.frontier.size)
    found = []
    for number, leaf in enumerate(map(read_leaf, entries)):
        if isinstance(leaf, StartedLeaf):
            found.append((leaf, Frontier().extended(map(leaf_hash, entries[:number]))))
    return found


async def test_the_leaf_names_the_quote_which_binds_all_that_was_before(tmp_path: Path) -> None:
    bound: list[bytes] = []

    def make(report_data: bytes) -> StartQuote:
        bound.append(report_data)
        return StartQuote(b"quote of " + report_data, b"" if len(bound) > 1 else b"collateral")

    async with running_engine(tmp_path, make_quote=make) as engine:
        await set_manifest(engine, manifest())
    async with running_engine(tmp_path, make_quote=make) as engine:
        root = engine.view.state.keys.root_cert
        (first, before), (second, later) = await starts(engine)
        assert (first.collateral, second.collateral) == (object_name(b"collateral"), "")
        for leaf, tree, report_data in ((first, before, bound[0]), (second, later, bound[1])):
            instance = bytes.fromhex(leaf.instance)
            assert report_data == start_report_data(root, instance, tree.size, tree.root)
            quote = await engine.writer.public_log.object(leaf.quote)
            assert quote == b"quote of " + report_data
        assert await engine.writer.public_log.object(first.collateral) == b"collateral"
        rebuilt = engine.view.running
    async with running_engine(tmp_path) as engine:
        assert engine.view.running.keys == rebuilt.keys


@pytest.mark.parametrize("error", [UnavailableError("no device"), BrokenError("refused")])
async def test_a_platform_that_cannot_quote_stops_no_start(
    tmp_path: Path, error: KeyhouseError
) -> None:
    def make(report_data: bytes) -> StartQuote:
        assert len(report_data) == 64
        raise error

    with capture_logs() as said:
        async with running_engine(tmp_path, make_quote=make) as engine:
            await set_manifest(engine, manifest())
        async with running_engine(tmp_path, make_quote=make) as engine:
            found = await starts(engine)
    assert [(leaf.quote, leaf.collateral) for leaf, _ in found] == [("", ""), ("", "")]
    told = [each["reason"] for each in said if each["event"] == "this start has no quote"]
    assert told == [error.message] * 2


async def test_a_folder_that_takes_no_object_stops_no_start(tmp_path: Path) -> None:
    def make(report_data: bytes) -> StartQuote:
        return StartQuote(report_data, b"")

    async with running_engine(tmp_path, make_quote=make) as engine:
        await set_manifest(engine, manifest())
    (folder,) = (tmp_path / "log").glob("*/object")
    shutil.rmtree(folder)
    folder.write_bytes(b"in its place")
    async with running_engine(tmp_path, make_quote=make) as engine:
        first, second = await starts(engine)
    assert first[0].quote
    assert not second[0].quote
