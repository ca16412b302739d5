"""The plan of an update: its effects, for a review before the update, and its digest."""

import hashlib
from enum import StrEnum
from typing import Final, Self

import msgspec

from keyhouse.base.errors import Problem
from keyhouse.wire.json_decoder import UInt64


class Effect(StrEnum):
    """The kind of an effect: the ``what`` of a change. The words are permanent."""

    _value_: str
    meaning: str

    def __new__(cls, word: str, meaning: str) -> Self:
        """Return the effect ``word``; ``meaning`` explains the word in the reference."""
        effect = str.__new__(cls, word)
        effect._value_, effect.meaning = word, meaning
        return effect

    PACKAGE_ADDED = "package-added", "a package that was not allowed before"
    PACKAGE_REMOVED = "package-removed", "no workload of the package can activate any more"
    PACKAGE_CHANGED = (
        "package-changed",
        (
            "one field; `SecurityVersion` from the one in force, also where package updates had "
            "raised it"
        ),
    )
    INFRASTRUCTURE_ADDED = (
        "infrastructure-added",
        "a description of platforms, which nothing enforces yet",
    )
    INFRASTRUCTURE_REMOVED = "infrastructure-removed", "a description of platforms"
    INFRASTRUCTURE_CHANGED = "infrastructure-changed", "a description of platforms"
    MARBLE_ADDED = "marble-added", "a type of workload that was not there before"
    MARBLE_REMOVED = (
        "marble-removed",
        "no workload of the type can activate any more; those that run continue",
    )
    MARBLE_CHANGED = (
        "marble-changed",
        "one field; of files and variables `names` are those that differ",
    )
    LIMIT_REACHED = (
        "limit-reached",
        "so many have activated already that the new limit lets none in",
    )
    DERIVED_KEYS_CHANGED = (
        "derived-keys-changed",
        (
            "each workload's own keys (`names`) are derived in another way: what it encrypted with "
            "the old ones is lost to it"
        ),
    )
    TLS_ADDED = "tls-added", "a new tag of transparent TLS"
    TLS_REMOVED = "tls-removed", "a tag of transparent TLS is gone"
    TLS_CHANGED = "tls-changed", "the incoming or outgoing connections (`field`) of a tag differ"
    SECRET_ADDED = (
        "secret-added",
        (
            "`after`: generated, derived (for each workload), issued (to each workload), uploaded "
            "(by a user) or given (in the manifest)"
        ),
    )
    SECRET_REMOVED = "secret-removed", "its definition, and with it any value"
    SECRET_CHANGED = "secret-changed", "one field of its definition"
    VALUE_REPLACED = "value-replaced", "a new value; the old one becomes the previous one"
    VALUE_GENERATED = "value-generated", "a new value because its definition changed"
    VALUE_LOST = "value-lost", "a value that is stored now is gone, also as a previous one"
    VALUE_NEEDED = "value-needed", "empty until a user uploads it"
    VALUE_GIVEN = "value-given", "the value in the manifest"
    USER_ADDED = "user-added", "a new user; the rights have lines of their own"
    USER_REMOVED = "user-removed", "out with the next request"
    USER_CHANGED = "user-changed", "other roles, or another certificate: who has the old one is out"
    RIGHT_GAINED = (
        "right-gained",
        (
            "an action (`field`) on `names`, which are of the kind `after`; no names for "
            "`UpdateManifest`"
        ),
    )
    RIGHT_LOST = "right-lost", "the same the other way round"
    ROLE_ADDED = "role-added", "a new role; what roles mean for users are their rights"
    ROLE_REMOVED = "role-removed", "a role is gone"
    ROLE_CHANGED = "role-changed", "one field of a role"
    RECOVERY_KEY_ADDED = "recovery-key-added", "a new holder of a share"
    RECOVERY_KEY_REMOVED = "recovery-key-removed", "a holder whose share opens nothing any more"
    RECOVERY_KEY_CHANGED = "recovery-key-changed", "another key, or another spelling of it"
    SHARES_RENEWED = (
        "shares-renewed",
        (
            "a new data key: old shares open nothing that is still on the disk. `before` and "
            "`after`: how many were and will be needed"
        ),
    )
    CONFIG_CHANGED = "config-changed", "one option"
    GATE_OPENED = "gate-opened", "a feature (`name`) is switched on"
    GATE_CLOSED = "gate-closed", "a feature (`name`) is switched off"
    ROOT_SECRET_ROTATED = (
        "root-secret-rotated",
        "what keys of single workloads are derived from",
    )
    INTERMEDIATE_RENEWED = "intermediate-renewed", "the CA of all workloads; the root stays"
    MARBLE_ROOT_RENEWED = "marble-root-renewed", "what workloads trust each other by"
    CERTIFICATE_RENEWED = "certificate-renewed", "a shared generated certificate, with a new key"
    CERTIFICATE_STAYS = (
        "certificate-stays",
        "a shared generated certificate that cannot be issued any more",
    )
    RESTART = "restart", "workloads of this type that run: `names` says what is new for them"
    EPOCH_BEGUN = "epoch-begun", "what is removed is deleted from the journal on the disk"


class PlanChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An effect. ``section`` is a section of the manifest, or ``Coordinator``.

    ``what`` is a stable word, ``name`` the exact name in the section, ``field`` a field in the
    manifest's spelling. ``before`` and ``after`` are text. ``text`` is the effect in a sentence.
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

    ``kind``: ``manifest``, or ``packages`` for security versions alone.

    ``base`` and ``manifest``: SHA-256, in hex, of the manifest in force and of the sent bytes.
    ``versions``: the security versions in force. ``users`` may acknowledge; ``needed`` of them have
    to, including the sender. ``changes`` are the differences. ``renewals`` are the values that
    every update of this kind regenerates. ``kept`` are the secrets with unchanged values.
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

    These facts are the acknowledgements so far, retained secrets without an uploaded value, remarks
    for people (also written to the update log), and warnings of the check.
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
    """Return the SHA-256 of ``plan`` in hex, independent of its sentences.

    The hash covers ``keyhouse plan v1`` and a zero byte, then JSON in UTF-8 without spaces, with
    sorted names of fields, without empty fields of changes, and without every ``text``.
    """
    content = msgspec.to_builtins(plan)
    for change in (*content["changes"], *content["renewals"]):
        del change["text"]
    return hashlib.sha256(_CONTEXT + msgspec.json.encode(content, order="sorted")).hexdigest()
