"""The proof of a line: accepted code applied each manifest.

1. The first entry is ``created``, by code that the measured rule accepts. Or the first entry is
   ``adopted``, for the root in the rule.
2. The rule, or an earlier manifest in this line, accepts the code of each later ``manifest``. The
   line grows from its first entry on, so no later entry vouches for an earlier entry.
3. Each of these entries has a quote over its hash. The hash covers all earlier entries. The caller
   has verified the quote and checked its platform (``judged``).

Pure: quotes are verified elsewhere.
"""

from collections.abc import Callable, Mapping

import msgspec

from keyhouse.attestation.errors import IdentityRefusedError
from keyhouse.attestation.origin.rule import OriginRefusedError, OriginRule, code_of, in_words
from keyhouse.attestation.quote.binding import entry_report_data, require_report_data
from keyhouse.attestation.quote.report import Report, Verdict
from keyhouse.transparency.line import Adopted, Created, Effective, RootLine, hash_of

NOT_PROVEN = "nothing proves that this root was made by accepted code"

Admits = Callable[[str, Verdict], bool]
"""Returns whether the manifest with this fingerprint admits the code of a verified quote."""


class Judge(msgspec.Struct, frozen=True):
    """The inputs of a proof: the measured rule, and the report ``own`` of this process.

    ``admits`` returns whether the manifest with a fingerprint admits the code of a verified quote.
    """

    rule: OriginRule
    own: Report
    admits: Admits


def require_line(
    line: RootLine, root_der: bytes, judged: Mapping[int, Verdict], judge: Judge, proven: int = 0
) -> None:
    """Verify that accepted code applied each manifest of ``line``.

    ``root_der``: the root certificate. ``judged``: the verdicts of the entries' quotes, by number
    of the entry. ``proven``: this many first entries were proven before, and need no verdict.
    ``judge``: the rule, and the report of this process. Raises ``OriginRefusedError``.
    """
    before: list[str] = []
    for number, entry in line.effective():
        if isinstance(entry, Adopted):
            require_adopted(entry, judge.rule)
        elif number >= proven:
            found = judged.get(number)
            if found is None:
                raise not_proven(entry)
            _require_bound(found, root_der, line.raw[number])
            _require_code(found, entry, judge, before)
        before.append(entry.manifest)


def require_adopted(entry: Adopted, rule: OriginRule) -> None:
    """Raise ``OriginRefusedError`` unless ``rule`` names the adopted root of ``entry``."""
    if rule.adopted != entry.root:
        raise OriginRefusedError(
            f"{NOT_PROVEN}: the root was adopted, but --adopt-root does not name it",
            hint=f"start with --adopt-root {entry.root} if you vouch for that root",
        )


def not_proven(entry: Effective) -> OriginRefusedError:
    """Return the refusal of ``entry``, whose quote is missing."""
    return OriginRefusedError(
        f"{NOT_PROVEN}: the quote of the manifest {entry.manifest} is missing",
        hint="restore the objects of the transparency log from a mirror (keyhouse log restore), or"
        " from a backup",
    )


def _require_bound(found: Verdict, root_der: bytes, raw: bytes) -> None:
    try:
        require_report_data(found.report_data, entry_report_data(root_der, hash_of(raw)))
    except IdentityRefusedError:
        raise OriginRefusedError(
            f"{NOT_PROVEN}: a quote of the line was made for another entry",
            hint="restore the state from a backup",
        ) from None


def _require_code(found: Verdict, entry: Effective, judge: Judge, before: list[str]) -> None:
    if code_of(found, entry.code.version) != entry.code:
        raise OriginRefusedError(
            "an entry of the line and its quote name different code",
            hint="restore the state from a backup",
        )
    if judge.rule.code.accepts(found, judge.own):
        return
    if isinstance(entry, Created):
        raise OriginRefusedError(
            f"{NOT_PROVEN}: it was made by {in_words(found)}, which --predecessors does not accept",
            hint=f"add {in_words(found)} to --predecessors if you ran this code",
        )
    if not any(judge.admits(manifest, found) for manifest in before):
        raise OriginRefusedError(
            f"the manifest {entry.manifest} took effect by the code {in_words(found)}, which"
            " neither --predecessors nor an earlier manifest accepts",
            hint=f"add {in_words(found)} to --predecessors if you ran this code",
        )
