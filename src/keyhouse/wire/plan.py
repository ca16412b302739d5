"""The plan of an update: its effects, for a review before the update, and its digest."""

import hashlib
from enum import StrEnum
from typing import Final

import msgspec

from keyhouse.base.errors import Problem
from keyhouse.wire.json_decoder import UInt64


class Effect(StrEnum):
    """The kinds of effects: the values of ``PlanChange.what``. The words never change.

    The page docs/reference/plan.md explains each word.
    """

    PACKAGE_ADDED = "package-added"
    PACKAGE_REMOVED = "package-removed"
    PACKAGE_CHANGED = "package-changed"
    INFRASTRUCTURE_ADDED = "infrastructure-added"
    INFRASTRUCTURE_REMOVED = "infrastructure-removed"
    INFRASTRUCTURE_CHANGED = "infrastructure-changed"
    MARBLE_ADDED = "marble-added"
    MARBLE_REMOVED = "marble-removed"
    MARBLE_CHANGED = "marble-changed"
    LIMIT_REACHED = "limit-reached"
    DERIVED_KEYS_CHANGED = "derived-keys-changed"
    TLS_ADDED = "tls-added"
    TLS_REMOVED = "tls-removed"
    TLS_CHANGED = "tls-changed"
    SECRET_ADDED = "secret-added"  # noqa: S105 - a word of a plan
    SECRET_REMOVED = "secret-removed"  # noqa: S105 - a word of a plan
    SECRET_CHANGED = "secret-changed"  # noqa: S105 - a word of a plan
    VALUE_REPLACED = "value-replaced"
    VALUE_GENERATED = "value-generated"
    VALUE_LOST = "value-lost"
    VALUE_NEEDED = "value-needed"
    VALUE_GIVEN = "value-given"
    USER_ADDED = "user-added"
    USER_REMOVED = "user-removed"
    USER_CHANGED = "user-changed"
    RIGHT_GAINED = "right-gained"
    RIGHT_LOST = "right-lost"
    ROLE_ADDED = "role-added"
    ROLE_REMOVED = "role-removed"
    ROLE_CHANGED = "role-changed"
    RECOVERY_KEY_ADDED = "recovery-key-added"
    RECOVERY_KEY_REMOVED = "recovery-key-removed"
    RECOVERY_KEY_CHANGED = "recovery-key-changed"
    SHARES_RENEWED = "shares-renewed"
    CONFIG_CHANGED = "config-changed"
    GATE_OPENED = "gate-opened"
    GATE_CLOSED = "gate-closed"
    ROOT_SECRET_ROTATED = "root-secret-rotated"  # noqa: S105 - a word of a plan
    INTERMEDIATE_RENEWED = "intermediate-renewed"
    MARBLE_ROOT_RENEWED = "marble-root-renewed"
    FORMER_ROOT_TRUSTED = "former-root-trusted"
    FORMER_ROOTS_ENDED = "former-roots-ended"
    CERTIFICATE_RENEWED = "certificate-renewed"
    CERTIFICATE_STAYS = "certificate-stays"
    RESTART = "restart"
    EPOCH_BEGUN = "epoch-begun"


class PlanChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An effect of an update. ``section`` is a section of the manifest, or ``Coordinator``.

    ``what`` is a stable word, ``name`` the exact name in the section, ``field`` a field in the
    manifest's spelling. ``names`` are the affected objects, such as files or resources. ``before``
    and ``after`` are text. ``text`` is the effect in a sentence.
    """

    section: str
    what: str
    name: str = ""
    field: str = ""
    before: str = ""
    after: str = ""
    names: tuple[str, ...] = ()
    text: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The effects of an update.

    ``kind``: ``manifest`` for a full update, ``packages`` for a package update.

    ``base`` and ``manifest``: SHA-256, in hex, of the manifest in force and of the sent manifest or
    package update. ``versions``: the security versions in force, by package. ``users`` may
    acknowledge; ``needed`` of these users must acknowledge, including the sender. ``changes`` are
    the differences of both manifests. ``renewals`` are the values that every update of this kind
    regenerates. ``kept`` are the names of secrets with unchanged values.
    """

    kind: str
    base: str
    manifest: str
    versions: dict[str, UInt64]
    users: tuple[str, ...]
    needed: int
    changes: tuple[PlanChange, ...]
    renewals: tuple[PlanChange, ...]
    kept: tuple[str, ...]


class PlanData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A plan, its digest, and facts that the digest does not cover.

    These facts are the acknowledgements so far, kept secrets without an uploaded value, notes for
    people (the update log has them too), and warnings of the check of the manifest.
    """

    digest: str
    plan: Plan
    acknowledged: tuple[str, ...]
    missing_acknowledgments: int
    missing_users: tuple[str, ...]
    not_uploaded: tuple[str, ...]
    notes: tuple[str, ...]
    warnings: tuple[Problem, ...]


_CONTEXT: Final = b"keyhouse plan v1\0"


def plan_digest(plan: Plan) -> str:
    """Return the SHA-256 of ``plan`` in hex. The sentences for people do not count.

    The hash covers ``keyhouse plan v1`` and a zero byte, then JSON in UTF-8 without spaces, with
    sorted names of fields, without empty fields of changes, and without every ``text``.
    """
    content = msgspec.to_builtins(plan)
    for change in (*content["changes"], *content["renewals"]):
        del change["text"]
    return hashlib.sha256(_CONTEXT + msgspec.json.encode(content, order="sorted")).hexdigest()
