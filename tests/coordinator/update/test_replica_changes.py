"""Updates of ``Config.Replicas``: the lines of a plan, and renewals of the data key."""

import pytest

from keyhouse.coordinator.update.changes.config import replica_changes
from keyhouse.coordinator.update.retained import dismisses_replicas
from keyhouse.manifest import Package, Replicas
from keyhouse.wire.kinds.tdx import TdxIdentity

OLD, NEW = Package(unique_id="aa" * 32), Package(unique_id="bb" * 32)
SIGNED = Package(signer_id="cc" * 32, product_id=1, security_version=2)
HIGHER = Package(signer_id="cc" * 32, product_id=1, security_version=3)
VM = Package(tdx=TdxIdentity(mrtd="dd" * 48))
A, B = "0a" * 16, "0b" * 16
SAME = "exactly the code and settings of the one that hands it over"
BY_SIGNER = f"SignerID {'cc' * 32}, ProductID 1 and SecurityVersion"

CASES: dict[str, tuple[Replicas | None, Replicas | None, bool, list[str]]] = {
    "none": (None, None, False, []),
    "equal": (Replicas(code=(OLD,)), Replicas(code=(OLD,)), False, []),
    "given": (None, Replicas(), False, [f"Code |  > {SAME}"]),
    "taken away": (Replicas(), None, True, [f"Code | {SAME} > "]),
    "code is added": (
        Replicas(code=(OLD,)),
        Replicas(code=(OLD, NEW)),
        False,
        [f"Code |  > UniqueID {'bb' * 32}"],
    ),
    "code is dropped": (
        Replicas(code=(OLD, NEW)),
        Replicas(code=(NEW,)),
        True,
        [f"Code | UniqueID {'aa' * 32} > "],
    ),
    "code is named": (
        Replicas(),
        Replicas(code=(VM,)),
        True,
        [f'Code |  > TDX {{"MRTD":"{"dd" * 48}"}}', f"Code | {SAME} > "],
    ),
    "a version is raised": (
        Replicas(code=(SIGNED,)),
        Replicas(code=(HIGHER,)),
        True,
        [f"Code |  > {BY_SIGNER} 3 or higher", f"Code | {BY_SIGNER} 2 or higher > "],
    ),
    "a status is added": (
        Replicas(),
        Replicas(accepted_tcb_statuses=("OutOfDate",)),
        False,
        ["AcceptedTCBStatuses | UpToDate > UpToDate, OutOfDate"],
    ),
    "a status is dropped": (
        Replicas(accepted_tcb_statuses=("OutOfDate",)),
        Replicas(),
        True,
        ["AcceptedTCBStatuses | UpToDate, OutOfDate > UpToDate"],
    ),
    "platforms are named": (
        Replicas(),
        Replicas(platforms=(A, B)),
        True,
        [f"Platforms | any > {A}, {B}"],
    ),
    "a platform is added": (
        Replicas(platforms=(A,)),
        Replicas(platforms=(A, B)),
        False,
        [f"Platforms | {A} > {A}, {B}"],
    ),
    "a platform is dropped": (
        Replicas(platforms=(A, B)),
        Replicas(platforms=(B,)),
        True,
        [f"Platforms | {A}, {B} > {B}"],
    ),
    "any platform will do": (
        Replicas(platforms=(A,)),
        Replicas(),
        False,
        [f"Platforms | {A} > any"],
    ),
}


@pytest.mark.parametrize(("old", "new", "dismissed", "lines"), CASES.values(), ids=CASES)
def test_who_may_no_longer_have_the_key_is_noticed_and_told(
    old: Replicas | None,
    new: Replicas | None,
    dismissed: bool,  # noqa: FBT001 - a column of the table
    lines: list[str],
) -> None:
    found = list(replica_changes(old, new))

    assert dismisses_replicas(old, new) is dismissed
    assert [
        f"{each.field.removeprefix('Replicas.')} | {each.before} > {each.after}" for each in found
    ] == lines
    assert all(each.text and (each.section, each.name) == ("Config", "") for each in found)
