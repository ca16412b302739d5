"""The plan of an update: what it would change, for review before it is agreed to; its digest."""

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from keyhouse.base.errors import Problem
from keyhouse.wire.json_decoder import UInt64


class Effect(StrEnum):
    """What happens to something: the ``what`` of a change. Words are permanent."""

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
    SECRET_ADDED = "secret-added"  # noqa: S105 a word
    SECRET_REMOVED = "secret-removed"  # noqa: S105 a word
    SECRET_CHANGED = "secret-changed"  # noqa: S105 a word
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
    ROOT_SECRET_ROTATED = "root-secret-rotated"  # noqa: S105 a word
    INTERMEDIATE_RENEWED = "intermediate-renewed"
    MARBLE_ROOT_RENEWED = "marble-root-renewed"
    CERTIFICATE_RENEWED = "certificate-renewed"
    CERTIFICATE_STAYS = "certificate-stays"
    RESTART = "restart"
    EPOCH_BEGUN = "epoch-begun"


MEANINGS: Final[Mapping[Effect, str]] = {
    Effect.PACKAGE_ADDED: "a package that was not allowed before",
    Effect.PACKAGE_REMOVED: "no workload of the package can activate any more",
    Effect.PACKAGE_CHANGED: "one field; `SecurityVersion` from the one in force, also where package"
    " updates had raised it",
    Effect.INFRASTRUCTURE_ADDED: "a description of platforms, which nothing enforces yet",
    Effect.INFRASTRUCTURE_REMOVED: "a description of platforms",
    Effect.INFRASTRUCTURE_CHANGED: "a description of platforms",
    Effect.MARBLE_ADDED: "a type of workload that was not there before",
    Effect.MARBLE_REMOVED: "no workload of the type can activate any more; those that run continue",
    Effect.MARBLE_CHANGED: "one field; of files and variables `names` are those that differ",
    Effect.LIMIT_REACHED: "so many have activated already that the new limit lets none in",
    Effect.DERIVED_KEYS_CHANGED: "each workload's own keys (`names`) are derived in another way:"
    " what it encrypted with the old ones is lost to it",
    Effect.TLS_ADDED: "a new tag of transparent TLS",
    Effect.TLS_REMOVED: "a tag of transparent TLS is gone",
    Effect.TLS_CHANGED: "the incoming or outgoing connections (`field`) of a tag differ",
    Effect.SECRET_ADDED: "`after`: generated, derived (for each workload), issued (to each"
    " workload), uploaded (by a user) or given (in the manifest)",
    Effect.SECRET_REMOVED: "its definition, and with it any value",
    Effect.SECRET_CHANGED: "one field of its definition",
    Effect.VALUE_REPLACED: "a new value; the old one becomes the previous one",
    Effect.VALUE_GENERATED: "a new value because its definition changed",
    Effect.VALUE_LOST: "a value that is stored now is gone, also as a previous one",
    Effect.VALUE_NEEDED: "empty until a user uploads it",
    Effect.VALUE_GIVEN: "the value in the manifest",
    Effect.USER_ADDED: "a new user; the rights have lines of their own",
    Effect.USER_REMOVED: "out with the next request",
    Effect.USER_CHANGED: "other roles, or another certificate: who has the old one is out",
    Effect.RIGHT_GAINED: "an action (`field`) on `names`, which are of the kind `after`; no names"
    " for `UpdateManifest`",
    Effect.RIGHT_LOST: "the same the other way round",
    Effect.ROLE_ADDED: "a new role; what roles mean for users are their rights",
    Effect.ROLE_REMOVED: "a role is gone",
    Effect.ROLE_CHANGED: "one field of a role",
    Effect.RECOVERY_KEY_ADDED: "a new holder of a share",
    Effect.RECOVERY_KEY_REMOVED: "a holder whose share opens nothing any more",
    Effect.RECOVERY_KEY_CHANGED: "another key, or another spelling of it",
    Effect.SHARES_RENEWED: "a new data key: old shares open nothing that is still on the disk."
    " `before` and `after`: how many were and will be needed",
    Effect.CONFIG_CHANGED: "one option",
    Effect.GATE_OPENED: "a feature (`name`) is switched on",
    Effect.GATE_CLOSED: "a feature (`name`) is switched off",
    Effect.ROOT_SECRET_ROTATED: "what keys of single workloads are derived from",
    Effect.INTERMEDIATE_RENEWED: "the CA of all workloads; the root stays",
    Effect.MARBLE_ROOT_RENEWED: "what workloads trust each other by",
    Effect.CERTIFICATE_RENEWED: "a shared generated certificate, with a new key",
    Effect.CERTIFICATE_STAYS: "a shared generated certificate that cannot be issued any more",
    Effect.RESTART: "workloads of this type that run: `names` says what is new for them",
    Effect.EPOCH_BEGUN: "what is removed is deleted from the journal on the disk",
}


class PlanChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happens. ``section`` is that of the manifest, or ``Coordinator``.

    ``what`` is a stable word, ``name`` the exact name in the section, ``field`` a field as the
    manifest spells it. ``before`` and ``after`` are as text. ``text`` says it in a sentence.
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
    """What an update would do. ``kind``: ``manifest``, or ``packages`` for security versions alone.

    ``base`` and ``manifest``: SHA-256, in hex, of the manifest in force and of what was sent.
    ``versions``: the security versions in force. ``users`` may acknowledge, ``needed`` of them have
    to, the sender included. ``changes`` is what will differ, ``renewals`` what every update
    of this kind regenerates, ``kept`` the secrets that keep their values.
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
    """A plan and its digest, and what the digest does not cover.

    That is who has agreed so far, which secrets that stay no user has uploaded yet, what people
    should know in words (the update log will say it, too), and warnings of the check.
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
    """Return the SHA-256, in hex, of what ``plan`` says, whatever its words.

    It covers ``keyhouse plan v1`` and a zero byte, then JSON in UTF-8 without spaces, names of
    fields sorted, fields of changes that are empty left out, and every ``text`` left out.
    """
    content = msgspec.to_builtins(plan)
    for change in (*content["changes"], *content["renewals"]):
        del change["text"]
    return hashlib.sha256(_CONTEXT + msgspec.json.encode(content, order="sorted")).hexdigest()
