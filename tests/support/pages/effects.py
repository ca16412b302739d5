"""The meaning of each effect of an update, for the reference."""

from collections.abc import Mapping
from typing import Final

from keyhouse.wire.plan import Effect

__all__ = ["MEANINGS"]

MEANINGS: Final[Mapping[Effect, str]] = {
    Effect.PACKAGE_ADDED: "a package that was not allowed before",
    Effect.PACKAGE_REMOVED: "no workload of the package can activate any more",
    Effect.PACKAGE_CHANGED: (
        "one field; `SecurityVersion` from the one in force, also where package updates "
        "had raised it"
    ),
    Effect.INFRASTRUCTURE_ADDED: "a description of platforms, which nothing enforces yet",
    Effect.INFRASTRUCTURE_REMOVED: "a description of platforms",
    Effect.INFRASTRUCTURE_CHANGED: "a description of platforms",
    Effect.MARBLE_ADDED: "a type of workload that was not there before",
    Effect.MARBLE_REMOVED: (
        "no workload of the type can activate any more; those that run continue"
    ),
    Effect.MARBLE_CHANGED: "one field; of files and variables `names` are those that differ",
    Effect.LIMIT_REACHED: "so many have activated already that the new limit lets none in",
    Effect.DERIVED_KEYS_CHANGED: (
        "each workload's own keys (`names`) are derived in another way: what it encrypted"
        " with the old ones is lost to it"
    ),
    Effect.TLS_ADDED: "a new tag of transparent TLS",
    Effect.TLS_REMOVED: "a tag of transparent TLS is gone",
    Effect.TLS_CHANGED: "the incoming or outgoing connections (`field`) of a tag differ",
    Effect.SECRET_ADDED: (
        "`after`: generated, derived (for each workload), issued (to each workload), "
        "uploaded (by a user) or given (in the manifest)"
    ),
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
    Effect.RIGHT_GAINED: (
        "an action (`field`) on `names`, which are of the kind `after`; no names for "
        "`UpdateManifest`"
    ),
    Effect.RIGHT_LOST: "the same the other way round",
    Effect.ROLE_ADDED: "a new role; what roles mean for users are their rights",
    Effect.ROLE_REMOVED: "a role is gone",
    Effect.ROLE_CHANGED: "one field of a role",
    Effect.RECOVERY_KEY_ADDED: "a new holder of a share",
    Effect.RECOVERY_KEY_REMOVED: "a holder whose share opens nothing any more",
    Effect.RECOVERY_KEY_CHANGED: "another key, or another spelling of it",
    Effect.SHARES_RENEWED: (
        "a new data key: old shares open nothing that is still on the disk. `before` and "
        "`after`: how many were and will be needed"
    ),
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
