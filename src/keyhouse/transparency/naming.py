"""Which objects of a log its leaves name, and what these name in turn."""

from collections.abc import Callable, Iterator

from keyhouse.transparency.approval import SignedApproval
from keyhouse.transparency.leaf import (
    Leaf,
    ManifestSet,
    ManifestUpdated,
    PackagesUpdated,
    UpdateProposed,
)


def objects_named(leaf: Leaf, read: Callable[[str], bytes | None]) -> Iterator[str]:
    """Yield the names of the objects that ``leaf`` refers to. A log may lack some of them.

    ``read`` returns an object that was yielded before; None: it is not there. A package update is
    named by what its user signed alone. Raises ``LogInvalidError`` if that is not readable.
    """
    fields = ["imported", "quote", "collateral", "approval"]
    if isinstance(leaf, ManifestSet | UpdateProposed | ManifestUpdated):
        fields.append("manifest")
    yield from (name for field in fields if (name := getattr(leaf, field, "")))
    approval = read(leaf.approval) if isinstance(leaf, PackagesUpdated) and leaf.approval else None
    if approval is not None:
        yield SignedApproval.read(approval).approval.manifest
