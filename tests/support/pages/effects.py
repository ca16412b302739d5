"""The meaning of each effect of an update, for the reference."""

from collections.abc import Mapping
from typing import Final

from keyhouse.wire.plan import Effect

__all__ = ["MEANINGS"]

MEANINGS: Final[Mapping[Effect, str]] = {
    Effect.PACKAGE_ADDED: "a new package: its code may activate",
    Effect.PACKAGE_REMOVED: "the package is gone: its code cannot activate any more",
    Effect.PACKAGE_CHANGED: (
        "a field of a package. `before` of `SecurityVersion` is the version in force, which "
        "package updates may have raised"
    ),
    Effect.INFRASTRUCTURE_ADDED: "a new description of platforms (Keyhouse enforces none)",
    Effect.INFRASTRUCTURE_REMOVED: "a description of platforms is gone (Keyhouse enforces none)",
    Effect.INFRASTRUCTURE_CHANGED: "a description of platforms differs (Keyhouse enforces none)",
    Effect.MARBLE_ADDED: "a new type of workload",
    Effect.MARBLE_REMOVED: (
        "the type is gone: no workload of it can activate any more; running workloads continue"
    ),
    Effect.MARBLE_CHANGED: "a field of a type; `names` are the different files or variables",
    Effect.LIMIT_REACHED: "the new limit is already reached: no further workload can activate",
    Effect.DERIVED_KEYS_CHANGED: (
        "a new derivation of the keys (`names`) of each workload: data encrypted with the old"
        " keys are lost"
    ),
    Effect.TLS_ADDED: "a new tag of transparent TLS",
    Effect.TLS_REMOVED: "a tag of transparent TLS is gone",
    Effect.TLS_CHANGED: "the incoming or outgoing connections (`field`) of a tag differ",
    Effect.SECRET_ADDED: (
        "a new secret. `after` is `generated`, `derived` (for each workload), `issued` (to each "
        "workload), `uploaded` (by a user) or `given` (in the manifest)"
    ),
    Effect.SECRET_REMOVED: "the definition of a secret is gone, and so is its value",
    Effect.SECRET_CHANGED: "a field of the definition of a secret",
    Effect.VALUE_REPLACED: "a new value; the present value becomes the previous value",
    Effect.VALUE_GENERATED: "a new value, because the definition changed",
    Effect.VALUE_LOST: "the stored value is deleted, also as previous value",
    Effect.VALUE_NEEDED: "the secret is empty until a user uploads a value",
    Effect.VALUE_GIVEN: "the manifest gives the value",
    Effect.USER_ADDED: "a new user; separate changes list the rights",
    Effect.USER_REMOVED: "the user has no access from the next request on",
    Effect.USER_CHANGED: (
        "other roles, or another certificate; the old certificate has no access from the next "
        "request on"
    ),
    Effect.RIGHT_GAINED: (
        "a user gains the action `field` on the resources `names`, for example `ReadSecret` on "
        "`password`. `after` is the type of the resources. `UpdateManifest` has no `names`"
    ),
    Effect.RIGHT_LOST: "a user loses the action `field`; `before` is the type of the resources",
    Effect.ROLE_ADDED: "a new role; the changes of rights show the effect for users",
    Effect.ROLE_REMOVED: "a role is gone; the changes of rights show the effect for users",
    Effect.ROLE_CHANGED: "a field of a role; the changes of rights show the effect for users",
    Effect.RECOVERY_KEY_ADDED: "a new holder of a share",
    Effect.RECOVERY_KEY_REMOVED: "a holder is gone, and the share has no effect any more",
    Effect.RECOVERY_KEY_CHANGED: "another key of a holder, or another spelling of the same key",
    Effect.SHARES_RENEWED: (
        "a new data key and new shares. Old shares open no data on the disk; they still open old "
        "backups. `before` and `after` are the numbers of necessary shares"
    ),
    Effect.CONFIG_CHANGED: "an option of the coordinator",
    Effect.GATE_OPENED: "a feature (`name`) is switched on",
    Effect.GATE_CLOSED: "a feature (`name`) is switched off",
    Effect.ROOT_SECRET_ROTATED: (
        "a new root secret: the keys of single workloads are derived from this secret, so they "
        "all change"
    ),
    Effect.INTERMEDIATE_RENEWED: "a new CA for certificates of workloads; the root stays",
    Effect.MARBLE_ROOT_RENEWED: (
        "a new marble root, under which workloads verify each other: running workloads keep the "
        "old root, so restart them"
    ),
    Effect.FORMER_ROOT_TRUSTED: (
        "workloads trust the present marble root for `Config.Trust.OverlapHours` more; `after` has "
        "the hours"
    ),
    Effect.FORMER_ROOTS_ENDED: (
        "workloads trust no former marble root, because the update takes trust away, or its "
        "manifest has no overlap"
    ),
    Effect.CERTIFICATE_RENEWED: "a shared generated certificate, with a new key",
    Effect.CERTIFICATE_STAYS: (
        "a shared generated certificate stays, because the coordinator cannot issue it again "
        "under the new manifest"
    ),
    Effect.RESTART: (
        "running workloads of this type have old values until they restart; `names` lists them"
    ),
    Effect.EPOCH_BEGUN: "the journal on the disk is replaced: deleted values are erased from it",
}
