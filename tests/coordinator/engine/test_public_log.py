"""The transparency log of an engine: content, durability, and files."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.captured_log import capture_logs
from support.public_log import Published, published
from support.samples.crafted import made
from support.samples.deployment import (
    MACHINE,
    crashing_engine,
    engine_over,
    manifest,
    open_storage,
    running_engine,
    set_manifest,
    stored,
    upload,
)
from support.samples.recovery import recoverable
from support.samples.state import Snapshots
from support.samples.updates import initiated, together

from keyhouse.authority import StoredSecret
from keyhouse.base.errors import InvalidError, UnavailableError
from keyhouse.base.secret import Secret
from keyhouse.coordinator import Engine, Phase, StartQuote
from keyhouse.journal import DirectoryStorage
from keyhouse.journal.offline.backup import make_backup, restore_backup
from keyhouse.manifest import fingerprint
from keyhouse.transparency import leaf
from keyhouse.transparency.leaf import LEAF_BYTES, SecretsUploadedLeaf, object_name
from keyhouse.transparency.log_reader import objects_named
from keyhouse.transparency.tiles import WIDTH, Tile

FIRST = ["LogBegun", "ManifestSet", "Started"]
CANARY = b"a canary of 16 B"


def alone(word: str = "", **config: Any) -> bytes:
    return together(updaters=("alice",), word=word, UpdateThreshold=0, **config)


def log_folder(data: Path) -> Path:
    (folder,) = (data / "log").iterdir()
    return folder


async def test_each_change_has_its_leaf(tmp_path: Path) -> None:
    raw, then = alone(), alone("then")
    async with running_engine(tmp_path) as engine:
        await set_manifest(engine, raw)
        await upload(engine, {"note": CANARY})
        await initiated(engine, then)
        found = await published(engine)
        assert await engine.writer.public_log.object(fingerprint(raw)) == raw
        assert await engine.writer.public_log.object(fingerprint(then)) == then
    assert found.kinds == [*FIRST, "SecretsUploaded", "UpdateProposed", "ManifestUpdated"]
    uploaded, proposed, updated = found.leaves[3:]
    assert isinstance(uploaded, SecretsUploadedLeaf)
    assert [(each.user, each.names) for each in uploaded.uploads] == [("writer", ("note",))]
    assert isinstance(proposed, leaf.UpdateProposedLeaf)
    assert (proposed.user, proposed.base, proposed.manifest) == (
        "alice", fingerprint(raw), fingerprint(then),
    )  # fmt: skip
    assert isinstance(updated, leaf.ManifestUpdatedLeaf)
    assert (updated.base, updated.manifest) == (fingerprint(raw), fingerprint(then))


async def test_the_first_manifest_names_the_log(tmp_path: Path) -> None:
    def named(origin: str, word: str) -> bytes:
        return alone(word, Transparency={"Origin": origin})

    async with running_engine(tmp_path) as engine:
        await set_manifest(engine, named("log.example/a", ""))
        for number, kept in enumerate(("", "log.example/a")):
            await initiated(engine, named(kept, f"then {number}"))
        with pytest.raises(InvalidError, match=r"Config\.Transparency\.Origin"):
            await initiated(engine, named("log.example/b", "at last"))
        found = await published(engine)
    assert found.checkpoint.origin == "log.example/a"


async def test_the_log_continues_over_starts_crashes_and_epochs(tmp_path: Path) -> None:
    said: list[bytes] = []
    kinds: list[str] = []
    async with running_engine(tmp_path) as engine:
        await set_manifest(engine, manifest())
    for turn in range(6):
        async with (crashing_engine if turn % 2 else running_engine)(tmp_path) as engine:
            found = await published(engine)
            assert found.entries[: len(said)] == said
            for number in range(90):
                await upload(engine, {"note": b"%d" % number})
                if number == 50 + turn:
                    await engine._compact()
            found = await published(engine)
            said, kinds = found.entries, found.kinds
            assert engine.view.log_head == f"{len(said)}.{found.checkpoint.root[:8].hex()}"
    assert len(said) > 2 * WIDTH
    assert kinds == [*FIRST, *(6 * ["Started", *(90 * ["SecretsUploaded"])])]


async def test_many_names_are_several_leaves(tmp_path: Path) -> None:
    async with running_engine(tmp_path) as engine:
        await set_manifest(engine, manifest(1000))
        await upload(engine, {f"key{number}": bytes(16) for number in range(1000)})
        leaves = (await published(engine)).leaves[3:]
    names = [
        name
        for each in leaves
        if isinstance(each, SecretsUploadedLeaf)
        for upload in each.uploads
        for name in upload.names
    ]
    assert sorted(names) == sorted(f"key{number}" for number in range(1000))
    assert len(leaves) == 2  # 11 KB of names
    assert LEAF_BYTES == 8192


async def test_a_crash_at_any_step_of_a_change_leaves_a_whole_log(tmp_path: Path) -> None:
    data = tmp_path / "data"
    snapshots = Snapshots(data, tmp_path / "kept")
    storage = await DirectoryStorage.open(
        data, platform_kind="test", sealing_key=lambda _: Secret(bytes(32)), step=snapshots
    )
    async with engine_over(storage) as engine:
        await set_manifest(engine, alone())
        await upload(engine, {"note": CANARY})
        await engine._compact()
        await initiated(engine, alone("then"))
        await upload(engine, {"note": CANARY})
        whole = (await published(engine)).entries
    sizes: list[int] = []
    for _, copy in snapshots.taken:
        again = await DirectoryStorage.open(
            copy, platform_kind="test", sealing_key=lambda _: Secret(bytes(32))
        )
        async with engine_over(again) as engine:
            if engine.view.phase is Phase.ACCEPTING_MANIFEST:
                assert not sizes
                continue
            found = await published(engine)
            await require_objects(engine, found)
        *before, start = found.entries
        assert found.kinds[-1] == "Started"
        assert before == whole[: len(before)]
        assert start not in whole
        sizes.append(len(before))
    assert sizes == sorted(sizes)
    assert {3, 4, 6, 7} <= {*sizes}
    assert all(CANARY not in each.read_bytes() for each in _files(data / "log"))


async def require_objects(engine: Engine, found: Published) -> None:
    """Require every object named by a leaf."""
    for said in found.leaves:
        for name in objects_named(said, lambda _: None):
            assert object_name(await engine.writer.public_log.object(name)) == name


async def test_objects_are_durable_before_a_leaf_names_them(tmp_path: Path) -> None:
    steps: list[str] = []
    storage = await DirectoryStorage.open(
        tmp_path / "data",
        platform_kind="test",
        sealing_key=lambda _: Secret(bytes(32)),
        step=steps.append,
    )
    quote = StartQuote(b"a quote", b"its collateral")
    async with engine_over(storage, make_quote=lambda _: quote) as engine:
        await set_manifest(engine, alone())
        first = [fingerprint(alone()), *map(object_name, (quote.quote, quote.collateral))]
        _require_synced(steps, first, before="rename plan.new to plan")
        steps.clear()
        await initiated(engine, alone("then"))
        _require_synced(steps, [fingerprint(alone("then"))], before="commit")
        await require_objects(engine, await published(engine))


def _require_synced(steps: list[str], names: list[str], *, before: str) -> None:
    """Require one write and one sync of each object, and then one sync of their directory."""
    said = steps[: steps.index(before)]
    synced = [said.index(f"sync {name}") for name in names]
    assert all(said.index(f"write {name}") < at for name, at in zip(names, synced, strict=True))
    assert said.count("sync object/") == 1
    assert max(synced) < said.index("sync object/")


async def test_what_a_crash_left_of_an_object_costs_no_other(tmp_path: Path) -> None:
    data, raw = tmp_path / "data", alone()
    async with running_engine(data) as engine:
        await set_manifest(engine, raw)
        said = await published(engine)
        then = alone("then", SealMode="Disabled")
        for torn in (then, b"of a change that did not happen"):
            file = log_folder(data) / "object" / object_name(torn)
            file.write_bytes(torn[:3])
            file.chmod(0o600)
        with capture_logs() as logged:
            await initiated(engine, then)
        assert "a part of the transparency log is lost" in str(logged)
        assert await engine.writer.public_log.object(fingerprint(raw)) == raw
        assert await engine.writer.public_log.object(fingerprint(then)) == then
        assert (await published(engine)).entries[: len(said.entries)] == said.entries
    assert not (data / "log").exists()


def _files(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file()]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: None,
        lambda folder: [each.write_bytes(each.read_bytes() + b"more") for each in _files(folder)],
        lambda folder: (folder / "checkpoint").unlink(),
        lambda folder: shutil.rmtree(folder / "object"),
    ],
    ids=["nothing", "longer", "checkpoint", "objects"],
)
async def test_files_may_be_longer_or_lack_what_is_not_the_tree(
    tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    async with running_engine(tmp_path) as engine:
        await set_manifest(engine, manifest())
        await upload(engine, {"note": b"1"})
        await engine._compact()
        await upload(engine, {"note": b"2"})
        said = (await published(engine)).entries
    folder = log_folder(tmp_path)
    spoil(folder)
    async with running_engine(tmp_path) as engine:
        await engine._compact()
        assert (await published(engine)).entries[: len(said)] == said


@pytest.mark.parametrize("lost", ["entries", "hashes", ""])
async def test_lost_files_are_named_and_what_came_since_is_kept(tmp_path: Path, lost: str) -> None:
    data = tmp_path / "data"
    async with running_engine(data) as engine:
        await set_manifest(engine, manifest())
        await engine._compact()
        await upload(engine, {"note": b"1"})
        said = (await published(engine)).entries
    folder, kept = log_folder(data), tmp_path / "kept"
    shutil.copytree(folder, kept)
    shutil.rmtree(folder / lost)
    with capture_logs() as logged:
        async with running_engine(data) as engine:
            assert "transparency log are damaged" in str(logged)
            with pytest.raises(UnavailableError, match=r"tile/0/000\.p/1"):
                await engine.writer.public_log.tile(Tile(0, 0, 1))
            await upload(engine, {"note": b"2"})
            await engine._compact()
            await upload(engine, {"note": b"3"})
            assert stored(engine.view)["note"] == b"3"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(kept, folder)
    async with running_engine(data) as engine:
        found = await published(engine)
    assert found.entries[: len(said)] == said
    assert found.kinds[len(said) :] == ["Started", *(2 * ["SecretsUploaded"]), "Started"]


async def test_seal_mode_moves_the_log(tmp_path: Path) -> None:
    data = tmp_path / "data"
    nowhere = alone(SealMode="Disabled")
    async with running_engine(data) as engine:
        await set_manifest(engine, alone())
        await upload(engine, {"note": b"1"})
        await initiated(engine, nowhere)
        assert not (data / "log").exists()
        await upload(engine, {"note": b"2"})
        in_memory = (await published(engine)).entries
        assert await engine.writer.public_log.object(fingerprint(nowhere)) == nowhere
        await initiated(engine, alone(SealMode="UniqueKey"))
        on_disk = (await published(engine)).entries
        assert await engine.writer.public_log.object(fingerprint(nowhere)) == nowhere
    async with running_engine(data) as engine:
        found = await published(engine)
    assert on_disk[: len(in_memory)] == in_memory
    assert found.entries[: len(on_disk)] == on_disk
    assert found.kinds[-3:] == ["UpdateProposed", "ManifestUpdated", "Started"]


async def test_an_older_journal_gets_a_log_at_its_first_start(tmp_path: Path) -> None:
    crafted = made(recoverable([]))
    secrets = crafted.running.secrets.set("note", StoredSecret(Secret(CANARY), Secret(CANARY)))
    crafted.running = replace(crafted.running, public_log=None, secrets=secrets)
    await crafted.write(tmp_path, machine=MACHINE)
    async with engine_over(await open_storage(tmp_path)) as engine:
        assert engine.view.phase is Phase.RUNNING
        found = await published(engine)
        begun = found.leaves[0]
        assert isinstance(begun, leaf.LogBegunLeaf)
        lines = await engine.writer.public_log.object(begun.imported)
        assert lines.split(b"\n") == crafted.log.view().lines()
        raw = crafted.running.manifest
        assert await engine.writer.public_log.object(fingerprint(raw)) == raw
    assert found.kinds == ["LogBegun", "Started"]
    async with running_engine(tmp_path) as engine:
        assert (await published(engine)).kinds == ["LogBegun", "Started", "Started"]
    assert all(CANARY not in each.read_bytes() for each in _files(tmp_path / "log"))


async def test_a_backup_carries_the_log(tmp_path: Path) -> None:
    async def trusted(_: Path) -> None:
        """Accept the copy: separate tests check the journal of a copy."""

    data, raw = tmp_path / "data", manifest()
    async with crashing_engine(data) as engine:
        await set_manifest(engine, raw)
        for number in range(300):
            await upload(engine, {"note": b"%d" % number})
        await engine._compact()
        await upload(engine, {"note": b"in the journal"})
        said = (await published(engine)).entries
    await make_backup(data, tmp_path / "backup", trusted)
    await restore_backup(tmp_path / "backup", tmp_path / "other", trusted)
    async with running_engine(tmp_path / "other") as engine:
        found = await published(engine)
        assert await engine.writer.public_log.object(fingerprint(raw)) == raw
    assert found.entries[:-1] == said
    assert found.kinds[-1] == "Started"
