"""The scenes of the model, and the faults that break an invariant in a scene."""

from typing import Final, NamedTuple

from keyhouse.base.errors import UnauthenticatedError
from keyhouse.coordinator.core.lineages import (
    ActivateAgainError,
    LineageSupersededError,
    RenewFirstError,
    RevokedError,
)
from models.lineages.rules import Refusals, Rules, Scene


class Fault(NamedTuple):
    """A missing defence of the model, the scene of the attack, and the broken invariant."""

    name: str
    scene: Scene
    rules: Rules
    breaks: str


def _none(
    error: type[RenewFirstError | ActivateAgainError | RevokedError | LineageSupersededError],
) -> Refusals:
    return frozenset({error})


HONEST: Final = Scene(7, updates="TS", loses=True, ends=True)
KEY: Final = Scene(8, thief="key", updates="T", revokes=("workload", "type"), loses=True)
CLONE: Final = Scene(8, thief="enclave", revokes=("type",), loses=True, updates="T")
COPY: Final = Scene(6, code="v2", copies=True, updates="TSV", revokes=("machine",))
PACKAGES: Final = Scene(5, code="v2", updates="TV")
USER: Final = Scene(7, code="evil", copies=True, updates="NT", forged="E")
REPLICA: Final = Scene(7, updates="TD", thief="key", loses=True)
BACKUP: Final = Scene(8, backups=True, thief="key", updates="T", revokes=("workload",))
TWO: Final = Scene(7, replicas=True, thief="enclave", revokes=("workload", "platform"), updates="S")

SCENES: Final = {
    "honest": HONEST,
    "thief-with-a-key": KEY,
    "thief-with-an-enclave": CLONE,
    "old-copy": COPY,
    "dismissed-user": USER,
    "dismissed-replica": REPLICA,
    "restored-backup": BACKUP,
    "two-replicas": TWO,
}

FAULTS: Final = (
    Fault("no-renew-first", COPY, Rules(reads=_none(RenewFirstError)), "proven"),
    Fault("no-activate-again", COPY, Rules(reads=_none(ActivateAgainError)), "proven"),
    Fault("no-superseded-at-a-read", KEY, Rules(reads=_none(LineageSupersededError)), "ended"),
    Fault("no-superseded-at-a-renewal", CLONE, Rules(renews=_none(LineageSupersededError)), "one"),
    Fault("no-revoked-at-a-read", KEY, Rules(reads=_none(RevokedError)), "revoked"),
    Fault("no-revoked-at-a-renewal", KEY, Rules(renews=_none(RevokedError)), "revoked"),
    Fault("no-revoked-machine", COPY, Rules(renews=_none(RevokedError)), "revoked"),
    Fault("marks-are-lost", CLONE, Rules(keeps_marks=False), "doubted"),
    Fault("no-evidence", KEY, Rules(evidence=False), "proven"),
    Fault("published-next-root", USER, Rules(fresh_roots=False), "foreign"),
    Fault("published-next-root-and-a-replica", REPLICA, Rules(fresh_roots=False), "cut"),
    Fault("overlap-after-a-dismissal", REPLICA, Rules(cuts=False), "cut"),
    Fault("overlap-after-a-security-update", COPY, Rules(cuts=False), "cut"),
    Fault("overlap-after-a-package-update", PACKAGES, Rules(cuts=False), "cut"),
    Fault("a-renewal-without-a-request", HONEST, Rules(needs_request=False), "honest"),
    Fault("a-renewal-counts", HONEST, Rules(counts_once=False), "count"),
    Fault("no-activation-after-a-restore", BACKUP, Rules(again=False), "honest"),
    Fault(
        "a-dismissed-user-counts",
        USER,
        Rules(updates=frozenset({UnauthenticatedError})),
        "dismissed",
    ),
    Fault("no-read-gate", TWO, Rules(gate=False), "ended"),
    Fault("no-read-gate-and-a-revocation", TWO, Rules(gate=False), "revoked"),
    Fault("an-append-on-an-old-view", TWO, Rules(appends=False), "ended"),
)
