"""Changes of marble types and their parameters, and the workloads that have to restart."""

from collections.abc import Container, Iterator, Mapping

import msgspec

from keyhouse.base.printable import quoted
from keyhouse.coordinator.core.policy import InForce, Policy
from keyhouse.coordinator.update.compare import (
    change,
    differing,
    fields_that_differ,
    in_words,
    listed,
)
from keyhouse.manifest import Manifest, MarbleDefinition, MarbleParameters, Renewal, TemplateSource
from keyhouse.wire.plan import Effect, PlanChange
from keyhouse.wire.secret_types import SecretDefinition, SecretType

_MARBLES = "Marbles"


def marble_changes(state: InForce, old: Manifest, new: Policy) -> Iterator[PlanChange]:
    """Yield the changes of each marble type."""
    for name, before, after in differing(old.marbles, new.manifest.marbles):
        if after is None:
            text = f"marble {quoted(name)} is removed: no workload can activate as it any more"
            yield change(_MARBLES, Effect.MARBLE_REMOVED, name, text)
            continue
        if before is None:
            text = f"marble {quoted(name)} is added, of package {quoted(after.package)}"
            yield change(_MARBLES, Effect.MARBLE_ADDED, name, text)
        else:
            yield from _fields(name, before, after, new)
        yield from _limit_reached(state, name, before, after)


def _fields(
    name: str, before: MarbleDefinition, after: MarbleDefinition, new: Policy
) -> Iterator[PlanChange]:
    for field, was, becomes in fields_that_differ(before, after):
        if field == "Parameters":
            yield from _parameters(name, was, becomes)
            continue
        if field == "Renewal":
            yield from _renewal(name, was, becomes, after)
            continue
        text = f"marble {quoted(name)}: {field} from {in_words(was)} to {in_words(becomes)}"
        if field == "MaxActivations":
            text += " (0: without limit)"
        yield change(
            _MARBLES, Effect.MARBLE_CHANGED, name, text, field=field, before=was, after=becomes
        )
        if field == "DisableSecretBinding":
            yield from _derived_keys_changed(name, new)


def _renewal(
    name: str, before: Renewal | None, after: Renewal | None, marble: MarbleDefinition
) -> Iterator[PlanChange]:
    """Yield the change from the renewal rules ``before`` to ``after``; None: no renewals.

    ``marble``: the new definition of the type ``name``.
    """
    was, becomes = (each and f"{each.valid_minutes} minutes" for each in (before, after))
    if before is None:
        text = (
            f"marble {quoted(name)}: certificates are valid for {becomes}; running workloads"
            " activate once more, and launchers that do not renew lose their certificate then"
        )
        if marble.max_activations:
            text += f"; MaxActivations of {marble.max_activations} counts it"
    elif after is None:
        text = f"marble {quoted(name)}: certificates are not renewed any more"
    elif was == becomes:
        text = f"marble {quoted(name)}: OnChange or OnEnd of Renewal differs"
    else:
        text = f"marble {quoted(name)}: certificates are valid for {becomes} instead of {was}"
    yield change(
        _MARBLES,
        Effect.MARBLE_CHANGED,
        name,
        text,
        field="Renewal",
        before=_rules(before),
        after=_rules(after),
    )


def _rules(renewal: Renewal | None) -> str:
    return "" if renewal is None else msgspec.json.encode(renewal).decode()


def _parameters(
    name: str, before: MarbleParameters, after: MarbleParameters
) -> Iterator[PlanChange]:
    """Yield the changed files, variables and arguments of the type ``name``.

    The changes name the files and variables, without their content.
    """
    for field, was, becomes in fields_that_differ(before, after):
        names: tuple[str, ...] = ()
        text = f"marble {quoted(name)}: its arguments differ"
        if isinstance(was, dict):
            names = tuple(each for each, _, _ in differing(was, becomes))
            kind = "files" if field == "Files" else "variables"
            text = f"marble {quoted(name)}: these {kind} differ: {listed(names)}"
        yield change(
            _MARBLES,
            Effect.MARBLE_CHANGED,
            name,
            text,
            field=f"Parameters.{field}",
            names=names,
        )


def _derived_keys_changed(name: str, new: Policy) -> Iterator[PlanChange]:
    keys = tuple(
        secret
        for secret in sorted(_secrets_of_type(name, new))
        if _is_derived(new.manifest.secrets[secret])
    )
    if keys:
        text = f"marble {quoted(name)}: the keys of each workload change: {listed(keys)}"
        yield change(_MARBLES, Effect.DERIVED_KEYS_CHANGED, name, text, names=keys)


def _is_derived(definition: SecretDefinition) -> bool:
    is_key = definition.type is SecretType.SYMMETRIC_KEY
    return is_key and not (definition.shared or definition.user_defined)


def _secrets_of_type(name: str, policy: Policy) -> frozenset[str]:
    """Return the names of secrets in the templates of a type, also of previous values."""
    own = policy.templates.marbles[name]
    return own.names(TemplateSource.SECRETS) | own.names(TemplateSource.PREVIOUS)


def changed_limits(old: Manifest, new: Manifest) -> Iterator[tuple[str, int]]:
    """Yield the types with a changed limit of activations, with the new limit."""
    for name, before, after in differing(old.marbles, new.marbles):
        if after is None or not after.max_activations:
            continue
        if before is None or before.max_activations != after.max_activations:
            yield name, after.max_activations


def _limit_reached(
    state: InForce, name: str, before: MarbleDefinition | None, after: MarbleDefinition
) -> Iterator[PlanChange]:
    if before is not None and before.max_activations == after.max_activations:
        return
    count = state.activations.get(name, 0)
    if after.max_activations and count >= after.max_activations:
        text = f"marble {quoted(name)}: {count} have activated, so none can any more"
        yield change(_MARBLES, Effect.LIMIT_REACHED, name, text, after=after.max_activations)


def tls_changes(old: Manifest, new: Manifest) -> Iterator[PlanChange]:
    """Yield the changed tags of transparent TLS."""
    for name, before, after in differing(old.tls, new.tls):
        if before is None:
            yield change("TLS", Effect.TLS_ADDED, name, f"TLS tag {quoted(name)} is added")
        elif after is None:
            yield change("TLS", Effect.TLS_REMOVED, name, f"TLS tag {quoted(name)} is removed")
        else:
            for field, _, _ in fields_that_differ(before, after):
                text = f"TLS tag {quoted(name)}: its {field.lower()} connections differ"
                yield change("TLS", Effect.TLS_CHANGED, name, text, field=field)


def restarts(
    old: Policy, new: Policy, kept: tuple[str, ...], changed_packages: Container[str]
) -> Iterator[PlanChange]:
    """Yield the changes that running workloads of each remaining type get only after a restart.

    New certificates are always among them: the old certificates verify only against the old marble
    root. ``kept``: the secrets that keep their values. ``changed_packages``: the packages with
    changed requirements.
    """
    before, after = old.manifest, new.manifest
    fresh = _fresh(after, kept)
    tags = {name for name, _, _ in differing(before.tls, after.tls)}
    serving = {
        name
        for name, tag in after.tls.items()
        if any(entry.cert in fresh for entry in tag.incoming)
    }
    for name in sorted(before.marbles.keys() & after.marbles.keys()):
        was, becomes = before.marbles[name], after.marbles[name]
        binding = was.disable_secret_binding != becomes.disable_secret_binding
        has_new_secrets = not (
            fresh.isdisjoint(_secrets_of_type(name, new)) and serving.isdisjoint(becomes.tls)
        )
        changed_parts = {
            "package": was.package != becomes.package or becomes.package in changed_packages,
            "parameters": was.parameters != becomes.parameters,
            "secrets": has_new_secrets or binding,
            "TLS": was.tls != becomes.tls or not tags.isdisjoint(becomes.tls),
        }
        yield _restart(name, changed_parts, renews=None not in (was.renewal, becomes.renewal))


def _fresh(after: Manifest, kept: tuple[str, ...]) -> set[str]:
    """Return the names of the secrets with new values after an update.

    Certificates that each activation makes are left out. ``kept``: the names of the secrets that
    keep their values.
    """
    stay = set(kept)
    return {
        name
        for name, definition in after.secrets.items()
        if name not in stay
        and (definition.shared or definition.user_defined or not definition.type.is_certificate)
    }


def _restart(name: str, changed_parts: Mapping[str, bool], *, renews: bool) -> PlanChange:
    names = ("certificates", *(what for what, differs in changed_parts.items() if differs))
    text = (
        f"marble {quoted(name)}: workloads that run keep what they were given;"
        f" they have to start again to get new {' and '.join(names)}"
    )
    if renews:
        text = (
            f"marble {quoted(name)}: supervised workloads receive new {' and '.join(names)} while"
            " they run; all others have to start again"
        )
    return change(_MARBLES, Effect.RESTART, name, text, names=names)
