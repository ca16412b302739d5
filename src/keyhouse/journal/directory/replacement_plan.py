"""The file ``incoming/plan``: the change of the state directory's present store.

One line of ASCII, in one of these forms::

    replace ARCHIVE of OWNER          incoming/ has a new store, the old store moves to ARCHIVE
    restore FILES ARCHIVE of OWNER from NAME
                                      FILES of a store come back from archive/NAME
    clear ARCHIVE of OWNER            the old store moves to ARCHIVE, without a replacement
    erase                             the old store is erased; incoming/tombstone identifies it

OWNER is the store id (hex) and the epoch in the old store's recovery index, or ``-`` for an
unreadable index. OWNER keeps a plan from being applied to another store. Plans of older versions
have no OWNER, or no NAME; then FILES are in incoming/.

The file is named ``plan.new`` until the plan is committed.
"""

import re
from typing import Final

import msgspec

from keyhouse.journal.store.protocol import StoreDamagedError

PLAN: Final = "plan"
PLANNED: Final = "plan.new"  # before the commit
PLAN_LIMIT: Final = 256  # bytes
ERASE: Final = b"erase\n"

_FILES: Final = r"(?: (?:recovery_index|sealed_key|journal\.db)){1,3}"
_OWNER: Final = r"-|(?P<store>[0-9a-f]{32}) (?P<epoch>[0-9]{1,20})"
_FORM: Final = (
    rf"(?P<what>replace|clear|restore(?P<files>{_FILES})) (?P<archive>[0-9A-Za-z-]{{1,64}})"
    rf"(?P<bound> of (?:{_OWNER})(?: from (?P<source>[0-9A-Za-z-]{{1,64}}))?)?\n"
)


class Owner(msgspec.Struct, frozen=True):
    """The store id and the epoch in the header of a recovery index; not proven."""

    store_id: bytes
    epoch: int

    def __str__(self) -> str:
        return f"store {self.store_id.hex()} at epoch {self.epoch}"


class ReplacementPlan(msgspec.Struct, frozen=True):
    """A planned change of the store in a state directory, and the identity of this store."""

    what: str  # "replace", "restore" or "clear"
    archive: str  # name of the directory for the old files
    files: tuple[str, ...] = ()  # of a "restore"
    owner: Owner | None = None  # of the old store; None: no readable recovery index
    is_bound: bool = True  # False: made by a version that did not write the owner
    source: str = ""  # archived store to restore; empty: files are in incoming/

    def encode(self) -> bytes:
        """Return the content of the file incoming/plan for this plan."""
        what = " ".join((self.what, *self.files))
        owner = f"{self.owner.store_id.hex()} {self.owner.epoch}" if self.owner else "-"
        source = f" from {self.source}" if self.source else ""
        return f"{what} {self.archive} of {owner}{source}\n".encode("ascii")

    @classmethod
    def decode(cls, raw: bytes | None) -> "ReplacementPlan":
        """Return the plan in ``raw``. Raises ``StoreDamagedError`` for invalid bytes and None."""
        form = re.fullmatch(_FORM, (raw or b"").decode("latin-1"))
        if form is None or (form["source"] and not form["files"]):
            raise StoreDamagedError(
                "the replacement of the store was interrupted, and incoming/plan is missing or"
                " damaged",
                hint="restore the state directory from a backup",
            )
        owner = Owner(bytes.fromhex(form["store"]), int(form["epoch"])) if form["store"] else None
        return cls(
            what=form["what"].split()[0],
            archive=form["archive"],
            files=tuple((form["files"] or "").split()),
            owner=owner,
            is_bound=form["bound"] is not None,
            source=form["source"] or "",
        )


def not_for(what: str, *, because: str) -> StoreDamagedError:
    """Return the refusal of a plan for a store different from the present store.

    ``what``: the word of the plan, such as ``replace``. ``because``: the contradiction, as text.
    """
    return StoreDamagedError(
        f"incoming/plan says {what}, but {because}",
        hint="move incoming/ away while Keyhouse is stopped, to keep the present store; or move the"
        " files of the present store away, to give them up; this start changed nothing",
    )
