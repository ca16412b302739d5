"""The line of a root, as a coordinator proves it, and the checks that a client has made.

A quote shows which code answers, and under which root. It does not show who began the deployment: a
host can begin one with holders or code of its own, learn the root key, and then update to the
manifest that clients expect. The line lists every manifest that was in force under the root, so a
client can notice that.

1. The answer has a quote over the root, a fresh nonce and the last entry of the line. Genuine code
   serves all entries and has proven them itself, so their own quotes are left to auditors.
2. The entries follow each other, and the first one is about this root.
3. The line begins with the entries that are remembered.
4. The first manifest is the expected one, or the remembered one.
5. Where ``manifests`` is "all", each other manifest is listed, or the user has accepted it.

An older coordinator serves no line. That is no failure, unless a rule demands a line.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final

from keyhouse.attestation import Verdict
from keyhouse.attestation.quote.binding import line_report_data, require_report_data
from keyhouse.base.errors import KeyhouseError, RefusedError
from keyhouse.base.readable import Readable
from keyhouse.client.errors import ClientSetupError, TrustError
from keyhouse.client.memory.lines import SeenLine, require_continued_line
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.line import Created, RootLine, read_line
from keyhouse.transparency.note import SignedNote
from keyhouse.wire.client_api import LineData
from keyhouse.wire.headers import Place

_FINGERPRINT: Final = re.compile("[0-9a-f]{64}")
_PINNED: Final = "do not use it: another deployment answers, or its first manifest was never known"


class CheckName(StrEnum):
    """The checks of a coordinator: stable words for programs."""

    CODE = "code"
    LINE = "line"
    ORIGIN = "origin"
    FIRST_MANIFEST = "first-manifest"
    MANIFESTS = "manifests"
    MEMORY = "memory"
    WITNESSES = "witnesses"


class TrustCheck(Readable, frozen=True):
    """One check of a coordinator: whether a client has made it, and what it found, or why not."""

    name: str  # of ``CheckName``
    done: bool
    text: str


class LineRules(Readable, frozen=True):
    """What a line has to be, beside sound.

    ``first``: the fingerprint of the first manifest; empty: any. ``accepted``: the fingerprints of
    all manifests that may be in the line; None: any.
    """

    first: str = ""
    accepted: frozenset[str] | None = None

    @property
    def demand_line(self) -> bool:
        """Whether a coordinator without a line is refused."""
        return bool(self.first) or self.accepted is not None

    def require(self, line: RootLine, seen: SeenLine | None) -> None:
        """Raise ``TrustError`` for a line that these rules, or what was ``seen``, contradict."""
        if seen is not None:
            require_continued_line(line, seen)
        first = line.first
        if self.demand_line and not isinstance(first, Created):
            raise TrustError(
                "nothing shows the first manifest of this deployment: it began before the line",
                hint="compare without --first-manifest, or begin a new deployment",
            )
        if self.first and first.manifest != self.first:
            raise TrustError(
                f"the deployment began with the manifest {first.manifest}, must be {self.first}",
                hint=_PINNED,
            )
        if self.accepted is not None:
            known = self.accepted | {self.first} | (accepted_in(line, seen) if seen else set())
            for manifest in line.manifests:
                if manifest not in known:
                    raise TrustError(
                        f"the manifest {manifest} was in force, and nobody has accepted it here",
                        hint="judge it; keyhouse trust accept HOST, or list it",
                    )


def accepted_in(line: RootLine, seen: SeenLine) -> set[str]:
    """Return the manifests of ``line`` that the user has accepted."""
    return {entry.manifest for number, entry in line.effective() if number < seen.accepted}


def fingerprint_of(manifest: bytes | str) -> str:
    """Return the fingerprint of a manifest: of its bytes, or as 64 hex digits.

    Raises ``ClientSetupError`` for another text.
    """
    if isinstance(manifest, bytes):
        return hashlib.sha256(manifest).hexdigest()
    found = manifest.lower()
    if not _FINGERPRINT.fullmatch(found):
        raise ClientSetupError(
            f"{manifest!r} is not the fingerprint of a manifest, which has 64 hex digits",
            hint="keyhouse manifest check FILE prints it",
        )
    return found


def proven_line(
    data: LineData, root_der: bytes, nonce: bytes, judge: Callable[[bytes], Verdict]
) -> RootLine:
    """Return the line in an answer. Its quote binds root, nonce and last entry.

    ``judge`` verifies a quote, and returns its verdict if it is of the expected code. Raises
    ``TrustError``; may block.
    """
    try:
        line = read_line(tuple(each.entry for each in data.entries), root_der)
        text = SignedNote.read(data.checkpoint.encode()).text if data.checkpoint else b""
        wanted = line_report_data(root_der, nonce, line.last_hash, text)
        require_report_data(judge(data.quote).report_data, wanted)
    except (LogInvalidError, RefusedError, ValueError) as error:
        if isinstance(error, TrustError):
            raise
        reason = error.message if isinstance(error, KeyhouseError) else "its checkpoint is not text"
        raise TrustError(f"the line of the coordinator's root is not trusted: {reason}") from error
    return line


def require_line(line: RootLine | str, rules: LineRules, seen: SeenLine | None) -> None:
    """Raise ``TrustError`` for a ``line`` that ``rules``, or what was ``seen``, contradict.

    A text says why there is no line, although a manifest is in force.
    """
    if isinstance(line, RootLine):
        rules.require(line, seen)
        return
    showed = seen is not None and seen.number > 0
    if showed or rules.demand_line:
        raise TrustError(
            f"the manifests of this deployment cannot be compared: {line}",
            hint="it showed them before: find out why an older version answers"
            if showed
            else "upgrade the coordinator, or connect without --first-manifest",
        )


def checks_of(
    line: RootLine | str, rules: LineRules, seen: SeenLine | None
) -> Iterable[TrustCheck]:
    """Yield the checks that are about the line; a text says why there is none.

    ``seen``: what was remembered before.
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


def memory_check(known: Place | None, *, remembers: bool) -> TrustCheck:
    """Return whether the coordinator continues what was ``known``. ``remembers``: is a memory."""
    if known is not None:
        text = f"it continues the state {known}, which was seen before"
    else:
        text = "nothing was seen of it before" if remembers else "there is no memory"
    return TrustCheck(CheckName.MEMORY, done=known is not None, text=text)


def witness_check(*, demanded: bool, has_log: bool) -> TrustCheck:
    """Return whether witnesses saw the log. ``demanded``: there is a policy of witnesses."""
    if demanded and has_log:
        return TrustCheck(CheckName.WITNESSES, done=True, text="a quorum of them has seen its log")
    text = "no manifest is in force" if demanded else "no --witness-policy names any"
    return TrustCheck(CheckName.WITNESSES, done=False, text=text)


def _origin_check(line: RootLine) -> TrustCheck:
    if isinstance(line.first, Created):
        return TrustCheck(CheckName.ORIGIN, done=True, text="accepted code made the root key")
    text = "the root key is older than the line: nothing shows which code made it"
    return TrustCheck(CheckName.ORIGIN, done=False, text=text)


def _first_check(rules: LineRules, seen: SeenLine | None) -> TrustCheck:
    if rules.first:
        text = "it is the expected one"
    elif seen is not None:
        text = "it is the one that was seen here first"
    else:
        text = "--first-manifest names the expected one; nothing was seen here before"
    done = bool(rules.first or seen is not None)
    return TrustCheck(CheckName.FIRST_MANIFEST, done=done, text=text)


def _manifests_check(line: RootLine, rules: LineRules, seen: SeenLine | None) -> TrustCheck:
    known = {rules.first} | (accepted_in(line, seen) if seen is not None else set())
    left = len(set(line.manifests) - known)
    if rules.accepted is not None or not left:
        return TrustCheck(CheckName.MANIFESTS, done=True, text="each one is named or accepted")
    text = f"{left} not judged: keyhouse trust accept HOST accepts them"
    return TrustCheck(CheckName.MANIFESTS, done=False, text=text)
