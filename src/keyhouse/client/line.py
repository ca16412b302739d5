"""The checks that a client makes on the line of a root.

A quote proves the coordinator's code and root. A quote does not prove who began the deployment. A
host can begin a deployment with its own holders or code and learn the root key. Then the host can
update to the manifest that clients expect. The line lists every manifest that was in force under
the root, so a client can detect this attack.

1. The answer has a quote over the root, a fresh nonce and the last entry of the line. Genuine code
   has verified all entries. So a client does not verify the quotes in the entries; auditors do.
2. Each entry follows its predecessor, and the first entry is about this root.
3. The line begins with the remembered entries.
4. The first manifest is the expected or the remembered manifest.
5. If ``manifests`` is "all", the client's rules list each further manifest, or the user has
   accepted this manifest.

An older coordinator serves no line. This is a failure only if a rule requires a line.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final

from keyhouse.attestation import Verdict
from keyhouse.attestation.quote.binding import line_report_data, require_report_data
from keyhouse.base.errors import KeyhouseError, RefusedError
from keyhouse.base.hex_repr import Readable
from keyhouse.client.errors import ClientSetupError, TrustError
from keyhouse.client.memory.lines import SeenLine, require_continued_line
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.line import Created, RootLine, read_line
from keyhouse.transparency.note import SignedNote
from keyhouse.wire.client_api import LineData
from keyhouse.wire.headers import Place

_FINGERPRINT: Final = re.compile("[0-9a-f]{64}")
_PINNED: Final = (
    "do not use this coordinator: another deployment answers, or another person began this"
    " deployment"
)


class CheckName(StrEnum):
    """The names of a coordinator's checks: stable words for programs."""

    CODE = "code"
    LINE = "line"
    ORIGIN = "origin"
    FIRST_MANIFEST = "first-manifest"
    MANIFESTS = "manifests"
    MEMORY = "memory"
    WITNESSES = "witnesses"


class TrustCheck(Readable, frozen=True):
    """A check of a coordinator. ``done``: the check was made and has passed.

    ``text`` is the result, or the reason for a missing check.
    """

    name: str  # a value of ``CheckName``
    done: bool
    text: str


class LineRules(Readable, frozen=True):
    """A client's rules for the manifests of a line. ``verify_line`` checks the line's quote.

    ``first`` is the fingerprint of the first manifest; empty accepts any. ``accepted`` has the
    fingerprints of all permitted manifests; None accepts any.
    """

    first: str = ""
    accepted: frozenset[str] | None = None

    @property
    def demand_line(self) -> bool:
        """Whether a coordinator without a line is refused."""
        return bool(self.first) or self.accepted is not None

    def require(self, line: RootLine, seen: SeenLine | None) -> None:
        """Raise ``TrustError`` if ``line`` contradicts these rules or the remembered line ``seen``.

        ``seen`` is None if no line is remembered.
        """
        if seen is not None:
            require_continued_line(line, seen)
        first = line.first
        if self.demand_line and not isinstance(first, Created):
            raise TrustError(
                "the line of the root must show the first manifest, but the deployment is older"
                " than its line",
                hint="connect without --first-manifest and --accepted-manifests-only, or begin a"
                " new deployment",
            )
        if self.first and first.manifest != self.first:
            raise TrustError(
                f"the deployment began with the manifest {first.manifest}, expected {self.first}",
                hint=_PINNED,
            )
        if self.accepted is not None:
            known = self.accepted | {self.first} | (accepted_in(line, seen) if seen else set())
            for manifest in line.manifests:
                if manifest not in known:
                    raise TrustError(
                        f"the manifest {manifest} was in force, but you have not accepted it",
                        hint="review the manifest, then accept it: keyhouse trust accept HOST",
                    )


def accepted_in(line: RootLine, seen: SeenLine) -> set[str]:
    """Return the fingerprints of manifests in ``line`` that the user accepted before.

    ``seen`` is the remembered line. The user has accepted the manifests of its first
    ``seen.accepted`` entries.
    """
    return {entry.manifest for number, entry in line.effective() if number < seen.accepted}


def fingerprint_of(manifest: bytes | str) -> str:
    """Return the fingerprint of a manifest, given its bytes or the fingerprint in hex.

    Raises ``ClientSetupError`` for a text without exactly 64 hex digits.
    """
    if isinstance(manifest, bytes):
        return hashlib.sha256(manifest).hexdigest()
    fingerprint = manifest.lower()
    if not _FINGERPRINT.fullmatch(fingerprint):
        raise ClientSetupError(
            f"the fingerprint of a manifest must be 64 hex digits, but is {manifest!r}",
            hint="print the fingerprint: keyhouse manifest check FILE",
        )
    return fingerprint


def verify_line(
    data: LineData, root_der: bytes, nonce: bytes, judge: Callable[[bytes], Verdict]
) -> RootLine:
    """Return the line in an answer, after a check that the quote binds root, nonce and last entry.

    ``judge`` verifies a quote and returns its verdict if the quote has the expected code. Raises
    ``TrustError``. The function may block.
    """
    try:
        line = read_line(tuple(each.entry for each in data.entries), root_der)
        text = SignedNote.read(data.checkpoint.encode()).text if data.checkpoint else b""
        wanted = line_report_data(root_der, nonce, line.last_hash, text)
        require_report_data(judge(data.quote).report_data, wanted)
    except (LogInvalidError, RefusedError, ValueError) as error:
        if isinstance(error, TrustError):
            raise
        reason = (
            error.message
            if isinstance(error, KeyhouseError)
            else "the checkpoint beside the line is not text"
        )
        raise TrustError(f"the line of the coordinator's root is not trusted: {reason}") from error
    return line


def require_line(line: RootLine | str, rules: LineRules, seen: SeenLine | None) -> None:
    """Raise ``TrustError`` if ``line`` contradicts ``rules`` or the remembered line ``seen``.

    The check is for a coordinator with a manifest in force. If ``line`` is a text, the coordinator
    serves no line, and the text is the reason. ``seen`` is None if no line is remembered.
    """
    if isinstance(line, RootLine):
        rules.require(line, seen)
        return
    had_entries = seen is not None and seen.number > 0
    if had_entries or rules.demand_line:
        raise TrustError(
            f"the manifests of this deployment cannot be compared: {line}",
            hint="find out why an older version answers: the coordinator served a line before"
            if had_entries
            else "upgrade the coordinator, or connect without --first-manifest and"
            " --accepted-manifests-only",
        )


def checks_of(
    line: RootLine | str, rules: LineRules, seen: SeenLine | None
) -> Iterable[TrustCheck]:
    """Yield the results of the checks of ``line``, for people and programs.

    If ``line`` is a text, no check was made, and the text is the reason. ``seen`` is the line in
    the memory before this verification; None: no line was remembered.
    """
    if isinstance(line, str):
        names = (CheckName.LINE, CheckName.ORIGIN, CheckName.FIRST_MANIFEST, CheckName.MANIFESTS)
        yield from (TrustCheck(name, done=False, text=line) for name in names)
        return
    number = len(line.manifests)
    bound = f"a quote binds the line of {number} manifest{'s' if number > 1 else ''}"
    yield TrustCheck(CheckName.LINE, done=True, text=bound)
    yield _origin_check(line)
    yield _first_check(rules, seen)
    yield _manifests_check(line, rules, seen)


def memory_check(known: Place | None, *, has_memory: bool) -> TrustCheck:
    """Return the result of the comparison with the remembered state, for people and programs.

    ``known`` is the newest remembered place of the coordinator. None: no place is remembered, so
    nothing was compared. ``has_memory``: a memory is in use.
    """
    if known is not None:
        text = f"the coordinator continues the remembered state {known}"
    else:
        text = "no earlier state is remembered" if has_memory else "there is no memory"
    return TrustCheck(CheckName.MEMORY, done=known is not None, text=text)


def witness_check(*, demanded: bool, has_log: bool) -> TrustCheck:
    """Return the result of the check that witnesses have seen the log, for people and programs.

    ``demanded``: a policy of witnesses is in use. ``has_log``: the coordinator had a log to check.
    Without a manifest in force, there is no log.
    """
    if demanded and has_log:
        return TrustCheck(
            CheckName.WITNESSES, done=True, text="a quorum of witnesses has seen the log"
        )
    text = "no manifest is in force" if demanded else "no --witness-policy names witnesses"
    return TrustCheck(CheckName.WITNESSES, done=False, text=text)


def _origin_check(line: RootLine) -> TrustCheck:
    if isinstance(line.first, Created):
        return TrustCheck(CheckName.ORIGIN, done=True, text="accepted code generated the root key")
    text = "the root key is older than the line: no quote proves the code that made the key"
    return TrustCheck(CheckName.ORIGIN, done=False, text=text)


def _first_check(rules: LineRules, seen: SeenLine | None) -> TrustCheck:
    if rules.first:
        text = "the first manifest is the expected manifest"
    elif seen is not None:
        text = "the first manifest is the remembered manifest"
    else:
        text = "no first manifest is expected or remembered: set --first-manifest"
    done = bool(rules.first or seen is not None)
    return TrustCheck(CheckName.FIRST_MANIFEST, done=done, text=text)


def _manifests_check(line: RootLine, rules: LineRules, seen: SeenLine | None) -> TrustCheck:
    known = {rules.first} | (accepted_in(line, seen) if seen is not None else set())
    left = len(set(line.manifests) - known)
    if rules.accepted is not None or not left:
        return TrustCheck(
            CheckName.MANIFESTS, done=True, text="each manifest is listed or accepted"
        )
    text = f"{left} not accepted: keyhouse trust accept HOST accepts them"
    return TrustCheck(CheckName.MANIFESTS, done=False, text=text)
