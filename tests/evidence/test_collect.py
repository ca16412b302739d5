"""Evidence is made of a log's parts, no matter who serves them."""

from collections.abc import Callable

import pytest
from support.evidence import GOLDEN, Maker, history

from keyhouse.evidence.bundle import Evidence, Hidden, read_evidence
from keyhouse.evidence.collect import collect, proof_of
from keyhouse.evidence.gaps import Gap
from keyhouse.evidence.verify import examine
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.leaf import ManifestSetLeaf, ManifestUpdatedLeaf, read_leaf
from keyhouse.transparency.tiles import ENTRIES, Tile, bundle

MAKER = Maker()
EVIDENCE = MAKER.evidence(history(MAKER), milestones=(3, 8))
ENTRIES_TILE = f"tile/{Tile(ENTRIES, 0, len(EVIDENCE.entries)).path}"


OBJECTS = sorted(EVIDENCE.objects.keys() - {EVIDENCE.head.collateral})
OLD = read_evidence((GOLDEN / "deployment.evidence.json").read_bytes())
"""Of a version whose leaves do not state whether a manifest is public."""


def parts(of: Evidence = EVIDENCE, /, **changed: bytes | None) -> Callable[[str], bytes | None]:
    """Return what serves the log; ``changed``: its entries, or an object under its name."""
    entries = [each for each in of.entries if isinstance(each, bytes)]
    served: dict[str, bytes | None] = {ENTRIES_TILE: changed.pop("entries", bundle(entries))}
    objects = of.objects | changed
    return (served | {f"object/{name}": raw for name, raw in objects.items()}).get


def collected(
    read: Callable[[str], bytes | None] | None = None, of: Evidence = EVIDENCE, **options: object
) -> Evidence:
    given = {
        "made": of.made,
        "certificates": (of.root, of.intermediate),
        "key": of.log,
        "note": of.checkpoints[-1].encode(),
        "head": of.head,
        "collateral": of.objects[of.head.collateral],
        "earlier": of.checkpoints[:-1],
    }
    return collect(read or parts(), **{**given, **options})  # type: ignore[arg-type]


def test_what_is_collected_is_the_same_evidence() -> None:
    found = collected()

    assert found.entries == EVIDENCE.entries
    assert found.checkpoints == EVIDENCE.checkpoints
    assert examine(found, MAKER.pins()).gaps == {}


def test_hidden_anchors_leave_all_else_proven() -> None:
    found = collected(hide_anchors=True)

    hidden = [number for number, each in enumerate(found.entries) if isinstance(each, Hidden)]
    assert hidden == [9]
    assert examine(found, MAKER.pins()).gaps == {Gap.HIDDEN_ENTRY: (9,)}


@pytest.mark.parametrize("index", range(len(OBJECTS)))
def test_an_object_that_an_entry_names_and_the_log_lacks_is_refused(index: int) -> None:
    name = OBJECTS[index]
    with pytest.raises(LogInvalidError, match=f"object/{name}"):
        collected(parts(**{name: None}))


def test_an_old_log_need_not_have_its_manifests() -> None:
    named = {
        leaf.manifest
        for leaf in (read_leaf(each) for each in OLD.entries if isinstance(each, bytes))
        if isinstance(leaf, ManifestSetLeaf | ManifestUpdatedLeaf)
    }

    found = collected(parts(OLD, **dict.fromkeys(named)), OLD)

    assert OLD.objects.keys() - found.objects.keys() == named


def test_equal_checkpoints_are_collected_once() -> None:
    found = collected(earlier=[*(9 * EVIDENCE.checkpoints)])

    assert found.checkpoints == EVIDENCE.checkpoints


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"entries": None}, ENTRIES_TILE),
        ({"entries": bundle([b"{}"] * 11)}, "match the checkpoint"),
        ({next(iter(EVIDENCE.objects)): b"another"}, f"{next(iter(EVIDENCE.objects))} .*its name"),
    ],
    ids=["missing entries", "other entries", "other object"],
)
def test_parts_of_another_log_are_refused(changed: dict[str, bytes | None], why: str) -> None:
    with pytest.raises(LogInvalidError, match=why):
        collected(parts(**changed))


def test_earlier_checkpoints_have_to_be_continued() -> None:
    other = MAKER.evidence(history(MAKER)[:2])
    larger = MAKER.evidence([*history(MAKER), history(MAKER)[-1]])

    with pytest.raises(LogInvalidError, match="fork"):
        collected(earlier=[*MAKER.evidence(history(MAKER)[:5]).checkpoints])
    with pytest.raises(LogInvalidError, match="belong to this log"):
        collected(earlier=larger.checkpoints)
    assert collected(earlier=other.checkpoints).checkpoints[0] == other.checkpoints[0]


@pytest.mark.parametrize("index", [-1, 11])
def test_no_proof_of_an_entry_that_is_not_there(index: int) -> None:
    with pytest.raises(LogInvalidError, match=f"entry {index}.* 0 to 10"):
        proof_of(parts(), EVIDENCE.checkpoints[-1].encode(), index)
