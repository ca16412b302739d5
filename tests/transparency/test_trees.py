import pytest
from hypothesis import given, strategies as st
from support.tree import Tree

from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.inclusion import inclusion_proof, require_included
from keyhouse.transparency.tiles import (
    ENTRIES,
    WIDTH,
    Tile,
    bundle,
    bundled,
    frontier_of,
    nodes_of,
    right_edge,
)
from keyhouse.transparency.tree import (
    EMPTY_ROOT,
    LARGEST,
    Frontier,
    consistency_proof,
    leaf_hash,
    require_consistent,
)

MOST = 70_000
TREE = Tree(MOST)
SIZES = st.one_of(st.integers(1, 600), st.integers(1, MOST))


def read(tile: Tile) -> bytes:
    first = tile.index * WIDTH
    return b"".join(TREE.levels[8 * tile.level][first : first + tile.width])


@given(SIZES, st.data())
def test_every_leaf_is_proven_and_no_other_place_is(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    other = data.draw(st.integers(0, size - 1).filter(lambda at: at != index) | st.just(size))
    proof = inclusion_proof(nodes_of(read, size), index, size)

    require_included(TREE.node(0, index), index, size, proof, TREE.root(size))
    with pytest.raises(LogInvalidError):
        require_included(TREE.node(0, index), other, size, proof, TREE.root(size))


@given(SIZES, st.data())
def test_every_older_tree_is_continued(size: int, data: st.DataObject) -> None:
    old = data.draw(st.integers(1, size))
    proof = consistency_proof(nodes_of(read, size), old, size)

    require_consistent(old, size, proof, TREE.root(old), TREE.root(size))
    for changed in ([*proof, EMPTY_ROOT], proof[1:], [EMPTY_ROOT, *proof[1:]]):
        if changed != proof:
            with pytest.raises(LogInvalidError):
                require_consistent(old, size, changed, TREE.root(old), TREE.root(size))


@given(SIZES, st.integers(0, 600))
def test_a_frontier_grows_as_the_tree_does(size: int, more: int) -> None:
    more = min(more, MOST - size)
    grown = TREE.frontier(size).extended(TREE.levels[0][size : size + more])

    assert grown == TREE.frontier(size + more) == frontier_of(read, size + more)
    assert len(grown.roots) == (size + more).bit_count()


def test_the_tree_without_leaves() -> None:
    assert Frontier().root == EMPTY_ROOT
    assert frontier_of(read, 0) == Frontier()
    assert Frontier().extended([leaf_hash(b"")]).root == leaf_hash(b"")
    for old, size in ((0, 0), (0, 5), (6, 5), (5, LARGEST + 1), (-1, 5)):
        with pytest.raises(LogInvalidError):
            require_consistent(old, size, [], EMPTY_ROOT, EMPTY_ROOT)
        with pytest.raises(LogInvalidError):
            consistency_proof(TREE.node, old, size)
    for index, size in ((0, 0), (5, 5), (-1, 5), (5, LARGEST + 1)):
        with pytest.raises(LogInvalidError):
            require_included(EMPTY_ROOT, index, size, [], EMPTY_ROOT)
        with pytest.raises(LogInvalidError):
            inclusion_proof(TREE.node, index, size)


def test_the_right_edge_is_that_of_the_specification() -> None:
    assert [*right_edge(70_000)] == [Tile(0, 273, 112), Tile(1, 1, 17), Tile(2, 0, 1)]
    assert [*right_edge(256)] == [Tile(1, 0, 1)]
    assert [*right_edge(0)] == []


@pytest.mark.parametrize(
    ("tile", "path"),
    [
        (Tile(0, 0), "0/000"),
        (Tile(63, 1_234_067), "63/x001/x234/067"),
        (Tile(ENTRIES, 1000, 255), "entries/x001/000.p/255"),
        (Tile(1, 999, 1), "1/999.p/1"),
    ],
)
def test_a_tile_has_one_path(tile: Tile, path: str) -> None:
    assert tile.path == path
    assert Tile.read(path) == tile


@pytest.mark.parametrize(
    "path",
    [
        "",
        "0",
        "0/",
        "0/00",
        "0/0000",
        "00/000",
        "64/000",
        "-1/000",
        "+1/000",
        "data/000",
        "0/x000/000",
        "0/001/000",
        "0/x001/x000",
        "0/000/",
        "/0/000",
        "0/000.p",
        "0/000.p/",
        "0/000.p/0",
        "0/000.p/256",
        "0/000.p/999",
        "0/000.p/01",
        "0/000.p/-1",
        "0/000.p/1/",
        "0/000\n",
        "0/\u0660\u0660\u0660",
        "0/../000",
        "0//000",
        "entries/",
        "entries/000.p/256",
        "ENTRIES/000",
        "0/" + "x001/" * 7 + "000",
    ],
)
def test_no_other_path_is_a_tile(path: str) -> None:
    with pytest.raises(LogInvalidError):
        Tile.read(path)


def test_a_tile_is_in_trees_of_enough_leaves() -> None:
    for tile, least in (
        (Tile(0, 0, 1), 1), (Tile(0, 1), 512), (Tile(ENTRIES, 1), 512), (Tile(1, 0, 2), 512),
        (Tile(2, 0, 1), 65_536), (Tile(63, 0, 1), 256**63),
    ):  # fmt: skip
        assert tile.is_in(least)
        assert not tile.is_in(least - 1)


@given(st.lists(st.binary(max_size=300), max_size=256))
def test_a_bundle_gives_its_entries_back(entries: list[bytes]) -> None:
    raw = bundle(entries)
    assert bundled(raw, len(entries)) == entries
    assert bundled(raw + b"\0", len(entries), whole=False) == entries
    for damaged, width in ((raw + b"\0", len(entries)), (raw, len(entries) + 1)):
        with pytest.raises(LogInvalidError):
            bundled(damaged, width)


def test_what_no_bundle_and_no_tile_can_hold_is_refused() -> None:
    assert len(bundle([bytes(65_535)])) == 65_537
    with pytest.raises(LogInvalidError):
        bundle([bytes(65_536)])
    for size in (4, 6):
        with pytest.raises(LogInvalidError):
            frontier_of(lambda _: bytes(32 * 5), size)
