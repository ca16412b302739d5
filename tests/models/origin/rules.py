"""The checks of coordinators, and the part of the world for a search."""

from typing import Literal, NamedTuple


class Rules(NamedTuple):
    """The checks of a coordinator. The defaults are the checks of 5f0de743."""

    claim_is_of: Literal["in force", "first"] = "in force"  # "in force": checked in recoveries only
    origin: bool = False  # the first entry needs a quote of accepted code
    steps: bool = False  # each later manifest needs such a quote
    seal_binds: Literal["key", "prefix", "proven"] = "prefix"
    """"prefix": root and line at that time, in a directory. "key": only the data key, in a
    database, and in a directory while an epoch begins. "proven": all after the seal has a proof."""
    giver: Literal["journal", "proven"] = "journal"  # "journal": the journal names the givers
    follows: Literal["key", "proven"] = "key"  # how a running coordinator accepts a next epoch
    drops_votes: bool = False  # of a pending update that neither seal nor giver covers
    seals_of_signer: bool = True  # seals of other code of the same signer count
    holds_shares: bool = False  # until witnesses have cosigned the update
    adoption: Literal["none", "kept", "once"] = "none"  # --adopt-root; "once": for one start alone
    new_log: Literal["kept", "cut"] = "kept"  # the line after --begin-new-log
    tcb: Literal["then", "current"] = "then"  # the collateral for quotes of the line


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
    """The possible actions of a run, and the bounds of the search."""

    manifests: str
    agreed: frozenset[tuple[str, str]] = frozenset()  # updates agreed by good users
    longest: int = 2  # manifests of a line
    roots: int = 1  # made by genuine code
    depth: int = 4  # actions
    claims: tuple[str, ...] = ("", "T")
    bad_user: bool = False  # one of two users of T works for the host
    host_signs: bool = False  # the host has the signing key of the coordinator
    platform: Literal["sound", "broken", "outdated"] = "sound"
    """"broken": a platform of the host forges quotes. "outdated": its vendor now reports this."""
    witnessed: bool = False  # the manifests of good users have Serve: Witnessed
    careful_holders: bool = False  # good holders recover only states written by genuine code
    follows: bool = False  # coordinators share a store, and follow each other's epochs
    adopts: bool = False  # starts with --adopt-root
    new_logs: bool = False  # starts with --begin-new-log
