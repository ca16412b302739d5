"""The runs of the model: scenes, rules, and the protected clients of each rule."""

from typing import Final, NamedTuple

from models.origin.clients import Client
from models.origin.rules import NEW, NO_PROOF, ORIGIN_ALONE, SHARED, TODAY, Rules, Scene

_MISTAKE: Final = frozenset({("T", "E"), ("E", "N")})
_HOLDER: Final = frozenset({("T", "R"), ("R", "N")})

INSIDE, FORCE, CLAIM, LINE, WITNESSES, ROOT = Client
BASIC: Final = (INSIDE, FORCE, CLAIM, LINE)


class Run(NamedTuple):
    """A search, and the expected broken clients."""

    name: str
    about: str
    scene: Scene
    goal: str
    rules: Rules
    clients: tuple[Client, ...]
    broken: frozenset[Client]
    is_quick: bool = True  # takes at most two seconds


def _run(
    name: str,
    about: str,
    scene: Scene,
    rules: Rules,
    *broken: Client,
    goal: str = "T",
    clients: tuple[Client, ...] = BASIC,
    is_quick: bool = True,
) -> Run:
    return Run(name, about, scene, goal, rules, clients, frozenset(broken), is_quick)


_H1 = Scene("TC", longest=3, roots=0, depth=3, claims=("T",), careful_holders=True)
_M1 = Scene("TO", longest=3, roots=0, depth=3, careful_holders=True)
_A2 = Scene("TCO", depth=3, careful_holders=True)
_ALL = Scene("TCO", longest=3, depth=5)
_LET_IN = Scene("TEN", _MISTAKE, longest=3, depth=5)
_OLD = Scene("TEN", _MISTAKE, longest=3, depth=6)
_SEEN = _OLD._replace(witnessed=True, claims=("",))
_HELD = Scene("TRN", _HOLDER, longest=3, depth=6, witnessed=True, claims=("",))
_SIGNS = Scene("TCO", depth=4, host_signs=True)
_FORGES = Scene("TC", depth=3, platform="broken")
_OUTDATED = _FORGES._replace(platform="outdated")
_ADOPTS = Scene("TO", depth=4, adopts=True)
_FOLLOWS = Scene("TO", depth=4, follows=True, careful_holders=True)
_LOGS = Scene("TO", longest=3, depth=4, new_logs=True, careful_holders=True)

RUNS: Final = (
    _run("1", "H gives the key of an invented state", _H1, TODAY, INSIDE, FORCE, CLAIM),
    _run("1-claim", "as 1; the claim is of the first manifest", _H1, NO_PROOF,
         INSIDE, FORCE, CLAIM),
    _run("1-new", "as 1", _H1, NEW),
    _run("2", "an invented state is recovered", _M1, TODAY, INSIDE, FORCE, CLAIM),
    _run("2-new", "as 2", _M1, NEW),
    _run("A", "genuine code begins with the host's manifest", _A2, TODAY, INSIDE, FORCE, CLAIM),
    _run("A-shared", "as A; the seal binds no later epoch", _A2, SHARED, *BASIC),
    _run("B", "all of these; good holders recover everything", _ALL, NEW, FORCE,
         clients=(*BASIC, ROOT), is_quick=False),
    _run("3", "users admit H, and dismiss it", _LET_IN, TODAY, *BASIC, goal="N",
         is_quick=False),
    _run("3-origin", "as 3; only the origin is proven", _LET_IN, ORIGIN_ALONE, FORCE, CLAIM, LINE,
         goal="N", is_quick=False),
    _run("3-new", "as 3", _LET_IN, NEW, FORCE, CLAIM, goal="N", is_quick=False),
    _run("4-votes", "as 3; a user is the host's, votes are kept",
         _LET_IN._replace(bad_user=True, claims=("",)), NEW._replace(drops_votes=False), LINE,
         goal="N", clients=(LINE,), is_quick=False),
    _run("4-new", "as 3; a user is the host's", _LET_IN._replace(bad_user=True, claims=("",)), NEW,
         goal="N", clients=(LINE,), is_quick=False),
    _run("5-new", "as 3; the host shows an old copy", _OLD, NEW, LINE, clients=(LINE,)),
    _run("6-new", "as 5, with Serve: Witnessed", _SEEN, NEW, LINE, clients=(LINE, WITNESSES),
         is_quick=False),
    _run("7-shares", "users admit a holder of the host's; shares leave at once", _HELD,
         NEW._replace(holds_shares=False), WITNESSES, clients=(WITNESSES,)),
    _run("7-new", "as 7", _HELD, NEW, clients=(WITNESSES,)),
    _run("8-signer", "the host signs coordinators; seals of the signer count", _SIGNS,
         NEW._replace(seals_of_signer=True), *BASIC),
    _run("8-new", "the host signs coordinators", _SIGNS, NEW, FORCE, is_quick=False),
    _run("9-new", "a platform forges quotes", _FORGES, NEW, *BASIC),
    _run("tcb-new", "as 9; its vendor calls it outdated, the collateral of then judges", _OUTDATED,
         NEW, *BASIC),
    _run("tcb-current", "as 9; its vendor calls it outdated, today's collateral judges", _OUTDATED,
         NEW._replace(tcb="current"), FORCE),
    _run("adopt-once", "--adopt-root counts for one start alone", _ADOPTS,
         NEW._replace(adoption="once"), *BASIC),
    _run("adopt", "--adopt-root stays in the line and in the arguments", _ADOPTS, NEW, FORCE,
         is_quick=False),
    _run("follow", "a coordinator that runs follows an epoch of its store", _FOLLOWS, TODAY,
         *BASIC),
    _run("follow-new", "as follow", _FOLLOWS, NEW, FORCE),
    _run("log-cut", "--begin-new-log cuts the line", _LOGS, NEW._replace(new_log="cut"),
         FORCE, CLAIM, LINE),
    _run("log", "--begin-new-log keeps the line", _LOGS, NEW, FORCE),
)  # fmt: skip
"""Runs with names that end in ``new``, and ``adopt`` and ``log``, have the rules of decision 0055.
All remaining runs have the rules of 5f0de743, or lack one rule."""
