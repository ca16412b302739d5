"""The effects of an update on replicas: which coordinators may receive the data key."""

from collections.abc import Iterator

import msgspec

from keyhouse.coordinator.update.compare import change
from keyhouse.manifest import Package, Replicas
from keyhouse.wire.plan import Effect, PlanChange

_SAME_CODE = "exactly the code and settings of the one that hands it over"


def dismisses_replicas(old: Replicas | None, new: Replicas | None) -> bool:
    """Return whether ``old`` admits a coordinator that ``new`` may exclude.

    Such a coordinator may have the data key, or have sealed it. So the next records need a new key.
    """
    if old is None:
        return False
    if new is None or _code_texts(old) - _code_texts(new):
        return True
    if set(old.accepted_tcb_statuses) - set(new.accepted_tcb_statuses):
        return True
    if not new.platforms:
        return False
    return not old.platforms or not set(old.platforms) <= set(new.platforms)


def replica_changes(old: Replicas | None, new: Replicas | None) -> Iterator[PlanChange]:
    """Yield the newly admitted and the newly excluded replicas."""
    before, after = _code_texts(old), _code_texts(new)
    for name in sorted(after - before):
        yield _change("Code", f"coordinators with {name} are handed the data key", "", name)
    for name in sorted(before - after):
        text = f"coordinators with {name} are no longer handed the data key"
        yield _change("Code", text, name, "")
    old, new = old or Replicas(), new or Replicas()
    statuses = (old.accepted_tcb_statuses, new.accepted_tcb_statuses)
    if statuses[0] != statuses[1]:
        was, becomes = (", ".join(("UpToDate", *each)) for each in statuses)
        text = f"their platforms may have the TCB status {becomes}, instead of {was}"
        yield _change("AcceptedTCBStatuses", text, was, becomes)
    if old.platforms != new.platforms:
        was, becomes = (", ".join(each) or "any" for each in (old.platforms, new.platforms))
        yield _change("Platforms", f"their platforms from {was} to {becomes}", was, becomes)


def _change(field: str, text: str, before: str, after: str) -> PlanChange:
    where = f"Replicas.{field}"
    return change(
        "Config", Effect.CONFIG_CHANGED, "", text, field=where, before=before, after=after
    )


def _code_texts(replicas: Replicas | None) -> set[str]:
    """Return a text for each admitted code. Different identities have different texts."""
    if replicas is None:
        return set()
    return {_code_text(package) for package in replicas.code} or {_SAME_CODE}


def _code_text(package: Package) -> str:
    if package.vm is not None:
        return f"{package.vm.FIELD} {msgspec.json.encode(package.vm).decode()}"
    if package.unique_id:
        return f"UniqueID {package.unique_id}"
    return (
        f"SignerID {package.signer_id}, ProductID {package.product_id} and SecurityVersion"
        f" {package.security_version} or higher"
    )
