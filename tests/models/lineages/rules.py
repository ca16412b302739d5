"""The defences of the model, and the actions of a scene."""

from typing import Final, NamedTuple

from keyhouse.base.errors import KeyhouseError

Refusals = frozenset[type[KeyhouseError]]


class Rules(NamedTuple):
    """The defences. The defaults are the product; each other value is a fault."""

    evidence: bool = True  # a renewal and an activation need admitted code
    fresh_roots: bool = True  # an update makes a marble root; False: the next root is published
    cuts: bool = True  # a revoking update ends the trust in former roots
    gate: bool = True  # a replica serves only a confirmed state
    appends: bool = True  # a decision is on the newest state; False: on the view of a replica
    keeps_marks: bool = True  # a revocation stays with the lineage
    needs_request: bool = True  # False: a renewal can be without a request for a key (H1)
    again: bool = True  # False: a workload with a lineage cannot activate
    counts_once: bool = True  # False: a renewal is an activation
    reads: Refusals = frozenset()  # refusals of ``require_reader`` without an effect
    renews: Refusals = frozenset()  # refusals of renewals and activations without an effect
    updates: Refusals = frozenset()  # refusals of updates without an effect


class Scene(NamedTuple):
    """The possible actions, and the depth of the search."""

    depth: int
    thief: str = ""  # "key": without an enclave. "enclave": with admitted code
    code: str = ""  # of X
    copies: bool = False  # the host starts a copy
    backups: bool = False  # the operator restores a backup
    replicas: bool = False  # a second replica has an old view
    updates: str = ""  # possible manifests of the administrator
    forged: str = ""  # possible manifests of Mallory
    revokes: tuple[str, ...] = ()  # "workload", "type", "platform" of W; "machine" of X
    loses: bool = False  # answers of W can be lost
    ends: bool = False  # certificates can end


PRODUCT: Final = Rules()
