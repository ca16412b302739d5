"""What coordinators check, and which part of the world a search looks at."""

from typing import Literal, NamedTuple


class Rules(NamedTuple):
    """The checks of a coordinator. The defaults are those of 5f0de743."""

    claim_is_of: Literal["in force", "first"] = "in force"  # the former at recoveries only
    origin: bool = False  # the first entry needs a quote of accepted code
    steps: bool = False  # and so does each later manifest
    seal_binds: Literal["key", "prefix", "proven"] = "prefix"
    """"prefix": root and line until then, in a directory. "key": the data key alone, in a database,
    and in a directory while an epoch begins. "proven": all that is behind the seal is proven."""
    giver: Literal["journal", "proven"] = "journal"  # who may give, as the journal says
    follows: Literal["key", "proven"] = "key"  # a next epoch, while it runs
    drops_votes: bool = False  # of a pending update that neither seal nor giver covers
    seals_of_signer: bool = True  # what other code of the signer sealed is taken
    holds_shares: bool = False  # until witnesses have cosigned the update
    adoption: Literal["none", "kept", "once"] = "none"  # --adopt-root; "once": of one start alone
    new_log: Literal["kept", "cut"] = "kept"  # what --begin-new-log leaves of the line
    tcb: Literal["then", "current"] = "then"  # which collateral judges quotes of the line


TODAY = Rules()
SHARED = TODAY._replace(seal_binds="key")
NO_PROOF = TODAY._replace(claim_is_of="first")
ORIGIN_ALONE = NO_PROOF._replace(origin=True, giver="proven", drops_votes=True)
NEW = Rules(
    claim_is_of="first",
    origin=True,
    steps=True,
    seal_binds="proven",
    giver="proven",
    follows="proven",
    drops_votes=True,
    seals_of_signer=False,
    holds_shares=True,
    adoption="kept",
)


class Scene(NamedTuple):
    """What may happen in a run, and how far it is searched."""

    manifests: str
    agreed: frozenset[tuple[str, str]] = frozenset()  # updates that good users agree to
    longest: int = 2  # manifests of a line
    roots: int = 1  # that genuine code makes
    depth: int = 4  # actions
    claims: tuple[str, ...] = ("", "T")
    bad_user: bool = False  # one of two users of T is the host's
    host_signs: bool = False  # the host has the signing key of the coordinator
    platform: Literal["sound", "broken", "outdated"] = "sound"
    """"broken": the host has one that forges quotes. "outdated": its vendor says so by now."""
    witnessed: bool = False  # true manifests say Serve: Witnessed
    careful_holders: bool = False  # good holders recover only what genuine code wrote
    follows: bool = False  # coordinators share a store, and follow each other's epochs
    adopts: bool = False  # starts with --adopt-root
    new_logs: bool = False  # starts with --begin-new-log
