"""The proof of a line: each manifest took effect by code that was accepted at that place.

1. The first entry is ``created``, by code that the measured rule accepts; or ``adopted``, for the
   root that the rule names.
2. Each later ``manifest`` is by code that the rule accepts, or that a manifest before it in this
   line admits. The line grows from its first entry on, so nothing behind an entry vouches for it.
3. Each of these has a quote over the hash of the entry, which names all entries before it. The
   quote is verified and its platform judged before (``Judged``).

Pure: the quotes were verified elsewhere.
"""

from collections.abc import Callable, Mapping

import msgspec

from keyhouse.attestation.errors import IdentityRefusedError
from keyhouse.attestation.origin.rule import OriginRefusedError, OriginRule, code_of, in_words
from keyhouse.attestation.quote.binding import entry_report_data, require_report_data
from keyhouse.attestation.quote.report import Report
from keyhouse.attestation.quote.verdict import Verdict
from keyhouse.transparency.line import Adopted, Created, Effective, RootLine, hash_of

NOT_PROVEN = "nothing proves that this root was made by accepted code"

Admits = Callable[[str, Verdict], bool]
"""Tells whether the manifest of that fingerprint admits the code of a verified quote."""


class Judge(msgspec.Struct, frozen=True):
    """What lines are judged by: the measured rule, the own code, the manifests of the line."""

    rule: OriginRule
    own: Report
    admits: Admits


def require_line(
    line: RootLine, root_der: bytes, judged: Mapping[int, Verdict], judge: Judge, proven: int = 0
) -> None:
    """Return if each manifest of ``line`` took effect by accepted code.

    ``judged``: what the verified quotes of the entries say, by the number of the entry. ``proven``:
    so many entries are proven already. Raises ``OriginRefusedError``.
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
    """Raise ``OriginRefusedError`` unless the rule names the root that was adopted."""
    if rule.adopted != entry.root:
        raise OriginRefusedError(
            f"{NOT_PROVEN}: it was adopted, and --adopt-root does not name it",
            hint=f"start with --adopt-root {entry.root} if you vouch for that root",
        )


def not_proven(entry: Effective) -> OriginRefusedError:
    """Return the refusal of an entry without a quote."""
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
            "an entry of the line names other code than its quote",
            hint="restore the state from a backup",
        )
    if judge.rule.code.accepts(found, judge.own):
        return
    if isinstance(entry, Created):
        raise OriginRefusedError(
            f"{NOT_PROVEN}: it was made by {in_words(found)}, which --predecessors does not accept",
            hint=f"add {in_words(found)} to --predecessors if it was yours",
        )
    if not any(judge.admits(manifest, found) for manifest in before):
        raise OriginRefusedError(
            f"the manifest {entry.manifest} took effect by the code {in_words(found)}, which"
            " neither --predecessors nor an earlier manifest accepts",
            hint=f"add {in_words(found)} to --predecessors if it was yours",
        )
