"""Yields the plan's effects on options, recovery keys and the coordinator's own keys."""

from collections.abc import Iterator

from keyhouse.base.printable import quoted
from keyhouse.coordinator.update import retained
from keyhouse.coordinator.update.compare import as_text, change, differing, fields_that_differ
from keyhouse.manifest import FeatureGate, Manifest, Replicas, SealMode, Transparency, TrustDocument
from keyhouse.wire.plan import Effect, PlanChange

_CONFIG, _RECOVERY = "Config", "RecoveryKeys"


def recovery_changes(old: Manifest, new: Manifest) -> Iterator[PlanChange]:
    """Yield the added, removed and changed recovery keys, and a change for new shares."""
    before = {name: key.pem for name, key in old.recovery_keys.items()}
    after = {name: key.pem for name, key in new.recovery_keys.items()}
    for name, was, becomes in differing(before, after):
        what, verb = Effect.RECOVERY_KEY_CHANGED, "is another one"
        if was is None:
            what, verb = Effect.RECOVERY_KEY_ADDED, "is added"
        elif becomes is None:
            what, verb = Effect.RECOVERY_KEY_REMOVED, "is removed"
        yield change(_RECOVERY, what, name, f"recovery key {quoted(name)} {verb}")
    (_, needed), (_, new_needed) = retained.recovery_terms(old), retained.recovery_terms(new)
    if retained.renews_data_key(old, new):
        yield change(
            _RECOVERY, Effect.SHARES_RENEWED, "", _shares(new), before=needed, after=new_needed
        )


def _shares(new: Manifest) -> str:
    _, needed = retained.recovery_terms(new)
    begin = "there is a new data key, and old shares do not decrypt the data on the disk"
    if not needed:
        return f"{begin}: a lost state cannot be recovered"
    return (
        f"{begin}; the answer to the request that applies the update contains the new shares,"
        f" and a recovery needs {needed} of {len(new.recovery_keys)}"
    )


def config_changes(old: Manifest, new: Manifest) -> Iterator[PlanChange]:
    """Yield the changed options, and a change for a rotation of the root secret."""
    for field, was, becomes in fields_that_differ(old.config, new.config):
        if field == "FeatureGates":
            yield from _gates(was, becomes)
            continue
        if field == "Replicas":
            yield from replica_changes(was, becomes)
            continue
        if field == "Transparency":
            yield from _transparency(was or Transparency(), becomes or Transparency())
            continue
        if field == "Trust":
            yield from _trust(was or TrustDocument(), becomes or TrustDocument())
            continue
        text = f"{field} from {as_text(was)} to {as_text(becomes)}{_meaning(field, becomes, old)}"
        yield change(
            _CONFIG, Effect.CONFIG_CHANGED, "", text, field=field, before=was, after=becomes
        )
    if new.config.rotate_root_secret:
        text = (
            "the root secret is replaced: the keys of each workload change, and the old ones"
            " become their previous ones"
        )
        yield change(_CONFIG, Effect.ROOT_SECRET_ROTATED, "", text)


def _gates(before: tuple[FeatureGate, ...], after: tuple[FeatureGate, ...]) -> Iterator[PlanChange]:
    for gate in sorted({*before, *after}):
        if gate not in before:
            yield change(_CONFIG, Effect.GATE_OPENED, gate, f"feature gate {gate} is opened")
        elif gate not in after:
            yield change(_CONFIG, Effect.GATE_CLOSED, gate, f"feature gate {gate} is closed")


def _transparency(before: Transparency, after: Transparency) -> Iterator[PlanChange]:
    """Yield the changes of the options for witnesses of the transparency log."""
    for field, was, becomes in fields_that_differ(before, after):
        if field == "Origin":  # the log keeps its name
            continue
        text = f"Transparency.{field} from {as_text(was) or 'none'} to {as_text(becomes) or 'none'}"
        if field == "Witnesses":
            text = "other witnesses of the transparency log" if becomes else "no more witnesses"
        where = f"Transparency.{field}"
        yield change(
            _CONFIG, Effect.CONFIG_CHANGED, "", text, field=where, before=was, after=becomes
        )


def _trust(before: TrustDocument, after: TrustDocument) -> Iterator[PlanChange]:
    for field, was, becomes in fields_that_differ(before, after):
        values = f"from {as_text(was)} to {as_text(becomes)}"
        text = f"Trust.{field} {values}: it counts from this update on"
        where = f"Trust.{field}"
        yield change(
            _CONFIG, Effect.CONFIG_CHANGED, "", text, field=where, before=was, after=becomes
        )


def former_roots(old: Manifest, new: Manifest, hours: int) -> Iterator[PlanChange]:
    """Yield the effect on former marble roots, if a manifest lets workloads trust them for a time.

    ``hours``: the time for which workloads trust the present root after the update.
    """
    if hours:
        text = (
            f"workloads trust the present marble root for {hours} hours more; certificates of it"
            " read no secrets"
        )
        yield change("Coordinator", Effect.FORMER_ROOT_TRUSTED, "", text, after=hours)
    elif any(each.config.trust and each.config.trust.overlap_hours for each in (old, new)):
        text = (
            "workloads trust no former marble root: until all have renewed their certificates, some"
            " refuse each other"
        )
        yield change("Coordinator", Effect.FORMER_ROOTS_ENDED, "", text)


def _meaning(field: str, becomes: object, old: Manifest) -> str:
    if field == "UpdateThreshold":
        return " (0: all): it counts for the updates after this one"
    if field == "RecoveryThreshold":
        return " (0: all)"
    if field == "SealMode" and becomes is SealMode.DISABLED:
        return f": {retained.KEPT_NOWHERE}"
    if field == "SealMode" and old.config.seal_mode is SealMode.DISABLED:
        return f": {retained.KEPT_AGAIN}"
    return ""


def renewals_of_ca(*, epoch: bool) -> Iterator[PlanChange]:
    """Yield the changes of a plan that every update makes: the renewals of the CAs.

    ``epoch``: the update is a full update, so it also begins an epoch of the journal.
    """
    text = "the intermediate CA gets a new key and certificate; the root certificate stays"
    yield change("Coordinator", Effect.INTERMEDIATE_RENEWED, "", text)
    text = (
        "the marble root certificate is regenerated: workloads that activate from now on and those"
        " from before do not accept each other's certificates"
    )
    yield change("Coordinator", Effect.MARBLE_ROOT_RENEWED, "", text)
    if epoch:
        text = "the journal begins a new epoch: what is removed is deleted from the disk"
        yield change("Coordinator", Effect.EPOCH_BEGUN, "", text)


def replica_changes(old: Replicas | None, new: Replicas | None) -> Iterator[PlanChange]:
    """Yield the newly admitted and the newly excluded replicas."""
    before, after = retained.code_texts(old), retained.code_texts(new)
    for name in sorted(after - before):
        yield _replica_change("Code", f"coordinators with {name} are handed the data key", "", name)
    for name in sorted(before - after):
        text = f"coordinators with {name} are no longer handed the data key"
        yield _replica_change("Code", text, name, "")
    old, new = old or Replicas(), new or Replicas()
    statuses = (old.accepted_tcb_statuses, new.accepted_tcb_statuses)
    if statuses[0] != statuses[1]:
        was, becomes = (", ".join(("UpToDate", *each)) for each in statuses)
        text = f"their platforms may have the TCB status {becomes}, instead of {was}"
        yield _replica_change("AcceptedTCBStatuses", text, was, becomes)
    if old.platforms != new.platforms:
        was, becomes = (", ".join(each) or "any" for each in (old.platforms, new.platforms))
        yield _replica_change("Platforms", f"their platforms from {was} to {becomes}", was, becomes)


def _replica_change(field: str, text: str, before: str, after: str) -> PlanChange:
    where = f"Replicas.{field}"
    return change(
        "Config", Effect.CONFIG_CHANGED, "", text, field=where, before=before, after=after
    )
