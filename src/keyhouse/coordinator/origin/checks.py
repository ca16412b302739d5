"""Add the changes of this process to the line of the root, and require the proof of the line.

A holder of the data key can invent a journal: with another root, other manifests and other
acknowledgements. So a coordinator serves a state only if accepted code made its root and applied
each of its manifests. The proof is the line (``transparency.line``) with the quotes of its entries.
A seal of this code vouches for the first entries of a line, and so does a coordinator that judged
by the same rule. Then only later entries need their quotes.

These rules apply at each start (by unsealing, join or recovery), and to each epoch of another
coordinator:

1. The root key in the state signs for the root certificate, and has signed the manifest.
2. The line is complete, and ends with the manifest in force (``core.line``).
3. With a claim, the line begins with the claimed manifest.
4. The line continues the vouched line, if a seal or a coordinator vouches for a line. The quotes of
   later entries prove them (``attestation.origin.rule``).
5. A state without a line comes from an older version. It needs a rule that names its root, and no
   claim.
"""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from keyhouse import authority
from keyhouse.attestation import QuoteProblem, QuoteRefusedError, Verdict
from keyhouse.attestation.origin.rule import (
    NOT_PROVEN,
    Judge,
    OriginRefusedError,
    OriginRule,
    code_of,
    not_proven,
    require_line,
)
from keyhouse.attestation.quote.binding import entry_report_data
from keyhouse.attestation.quote.report import Report
from keyhouse.base.errors import KeyhouseError, RefusedError
from keyhouse.coordinator.core import line as lines
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import LineItem, Running
from keyhouse.coordinator.origin.listed_code import lists_code
from keyhouse.journal import LineMark, Vouched
from keyhouse.manifest import fingerprint
from keyhouse.transparency.leaf import object_name
from keyhouse.transparency.line import Adopted, Code, Effective, RootLine, hash_of

ReadObject = Callable[[str], Awaitable[bytes | None]]
"""Returns the object of a name beside the log; None if the object is missing."""

_PAGE: Final = "the page 'States without a line' explains both"


class Proof(msgspec.Struct, frozen=True):
    """The quote of an entry, and the collateral that verified the quote, or empty bytes."""

    quote: bytes
    collateral: bytes


class EntryQuotes(Protocol):
    """Makes quotes for new entries of the line, and verifies the quotes of recorded entries.

    A proof of the line runs before the engine starts, so this interface does not need the engine.
    """

    async def own(self) -> Report:
        """Return the report that each quote of this process has. Raises ``UnavailableError``."""
        ...

    async def make(self, report_data: bytes, rule: OriginRule) -> Proof:
        """Return a quote of this process that verifies; warn if ``rule`` refuses its platform.

        ``report_data``: the 64 bytes in the quote. Raises ``UnavailableError``.
        """
        ...

    async def judge(self, proof: Proof, time: int, rule: OriginRule) -> Verdict:
        """Return the verdict about the quote in ``proof``.

        ``time`` is the time in the entry of the line, stated by the code in the quote. The verdict
        means that ``rule`` accepts the platform as of ``time``. It also means that the platform is
        not revoked today.

        Raises ``OriginRefusedError``, ``QuoteRefusedError`` or ``UnavailableError``.
        """
        ...


class LineAddition(msgspec.Struct, frozen=True):
    """The entries that a change adds to the line, and the objects that prove them."""

    items: tuple[LineItem, ...]
    objects: tuple[bytes, ...] = ()


class Origin:
    """Adds entries of this process to the line, and requires the proof of earlier entries.

    ``rule``: the rule about the code that may have made a root or applied a manifest. ``claim`` is
    the fingerprint of the only permitted first manifest; empty for any manifest.
    """

    def __init__(self, rule: OriginRule, quotes: EntryQuotes, *, claim: str, version: str) -> None:
        self.rule: Final = rule
        self._quotes: Final = quotes
        self._claim: Final = claim
        self._version: Final = version

    async def code(self) -> Code:
        """Return the code of this process in the form for entries of the line.

        Raises ``UnavailableError``.
        """
        return code_of(await self._quotes.own(), self._version)

    async def creation_entries(self, state: Running, time: int) -> LineAddition:
        """Return the line of a new deployment with a root from this process.

        ``time``: microseconds since 1970. Raises ``UnavailableError`` without a quote, because
        different code, and coordinators on further machines, accept the line only with a quote.
        """
        return await self._with_quote(state, lines.created(state, await self.code(), time))

    async def update_entries(self, before: Running, after: Running, time: int) -> LineAddition:
        """Return the entry of an update that this process applies; raise as ``creation_entries``.

        A state without a line gets no entry: ``adoption_entries`` begins its line later.
        """
        if not before.line:
            return LineAddition(())
        code = await self.code()
        return await self._with_quote(after, lines.updated(before, after.manifest, code, time))

    def needs_adoption(self, state: Running) -> bool:
        """Return whether the line of ``state`` has to begin with the adoption of its root.

        The state has no line yet, and the rule names its root.
        """
        return not state.line and self.rule.adopted == _root_of(state).hex()

    async def adoption_entries(self, state: Running, time: int) -> tuple[LineItem, ...]:
        """Return the line that begins with the adoption of the root of ``state``."""
        return lines.adopted(state, await self.code(), time)

    async def start_entries(
        self, state: Running, time: int, *, holders: Sequence[str] = (), new_log: str = ""
    ) -> tuple[LineItem, ...]:
        """Return the new entries of the line of the root when this process starts on ``state``.

        The line of ``state`` must be proven. Without a line, the result is empty. ``holders`` and
        ``new_log``: as for ``core.line.started``.
        """
        if not state.line:
            return ()
        code = await self.code()
        return lines.started(state, code, time, holders=holders, new_log=new_log)

    def mark(self, state: Running) -> LineMark | None:
        """Return the length and last hash of the line, for seals and gives; None without a line.

        The line of ``state`` must be proven.
        """
        if not state.line:
            return None
        last = hash_of(state.line[-1].entry)
        return LineMark(_root_of(state), len(state.line), last, self.rule.digest)

    async def require(
        self, state: Running, read: ReadObject, vouched: Vouched | None = None
    ) -> None:
        """Return if ``state`` may be served: this rule accepts the proof of its line.

        ``read`` returns an object beside the log. ``vouched``: the statement of a seal or a replica
        about the line; None: no statement. Raises ``OriginRefusedError``, ``BrokenError`` or
        ``UnavailableError``.
        """
        require_root_key(state)
        line = lines.line_of(state)
        if line is None:
            self._require_adoption(state, vouched)
            return
        self._require_claim(line)
        await self._prove(state, line, read, vouched)

    async def require_continued(self, before: Running, after: Running, read: ReadObject) -> None:
        """Return if ``after``, written by another coordinator, may be served after ``before``.

        ``read`` and errors: as for ``require``.
        """
        root = (before.keys.root_cert, before.keys.root_key)
        if root != (after.keys.root_cert, after.keys.root_key):
            raise _other_line("another root certificate or root key")
        if before.line == after.line and before.manifest == after.manifest:
            return
        mark = self.mark(before)
        if mark is None:
            await self.require(after, read)
            return
        require_root_key(after)
        line = lines.line_of(after)
        if line is None:
            raise _other_line("the line is missing")
        _require_prefix(line, mark)
        await self._require_proven(after, line, read, mark.entries)

    async def _prove(
        self, state: Running, line: RootLine, read: ReadObject, vouched: Vouched | None
    ) -> None:
        proven = self._proven_entries(state, line, vouched)
        try:
            await self._require_proven(state, line, read, proven)
        except RefusedError as refused:
            if vouched is None or proven or vouched.line.rule != self.rule.digest:
                raise
            raise OriginRefusedError(
                "the state was sealed for the whole signer. --predecessors does not accept this"
                f" seal, and no quotes prove the line of the state: {refused.message}",
                hint=refused.hint,
            ) from None

    def _proven_entries(self, state: Running, line: RootLine, vouched: Vouched | None) -> int:
        """Return the number of entries of ``line`` that ``vouched`` proves.

        Raises ``OriginRefusedError`` if ``line`` does not continue the vouched line.

        Any code of the signer can make a seal of ``ProductKey``. So such a seal counts only if the
        rule accepts the signer, or if exactly this code made the seal.
        """
        if vouched is None:
            return 0
        mark = vouched.line
        if mark.root != _root_of(state):
            raise _other_line("the root certificate differs")
        _require_prefix(line, mark)
        counts = vouched.is_own or self.rule.code.signer
        return mark.entries if counts and mark.rule == self.rule.digest else 0

    async def _require_proven(
        self, state: Running, line: RootLine, read: ReadObject, proven: int
    ) -> None:
        judged: dict[int, Verdict] = {}
        for number, entry in line.effective():
            if number >= proven and not isinstance(entry, Adopted):
                judged[number] = await self._verdict_of(state.line[number], entry, read)
        own = await self._quotes.own() if judged else Report(b"", debug=False)
        others = [each for each in judged.values() if not self.rule.code.accepts(each, own)]
        manifests = await _manifests(state, line, read) if others else {}

        def admits(name: str, verdict: Verdict) -> bool:
            raw = manifests.get(name)
            replicas = None if raw is None else policy_of(raw).manifest.config.replicas
            return replicas is not None and lists_code(replicas, verdict)

        judge = Judge(self.rule, own, admits)
        require_line(line, state.keys.root_cert, judged, judge, proven)

    async def _verdict_of(self, item: LineItem, entry: Effective, read: ReadObject) -> Verdict:
        quote = await read(item.quote) if item.quote else None
        if quote is None:
            raise not_proven(entry)
        collateral = await read(item.collateral) if item.collateral else None
        try:
            return await self._quotes.judge(Proof(quote, collateral or b""), entry.time, self.rule)
        except QuoteRefusedError as refused:
            raise _quote_refused(entry, refused) from None
        except OriginRefusedError as refused:
            raise OriginRefusedError(
                f"{NOT_PROVEN}: the quote of the manifest {entry.manifest}: {refused.message}",
                hint=refused.hint,
            ) from None

    async def _with_quote(self, state: Running, items: tuple[LineItem, ...]) -> LineAddition:
        """Return ``items``, with a quote for the last item."""
        *others, last = items
        bound = entry_report_data(state.keys.root_cert, hash_of(last.entry))
        proof = await self._quotes.make(bound, self.rule)
        collateral = object_name(proof.collateral) if proof.collateral else ""
        named = replace(last, quote=object_name(proof.quote), collateral=collateral)
        objects = tuple(each for each in (proof.quote, proof.collateral) if each)
        return LineAddition((*others, named), objects)

    def _require_claim(self, line: RootLine) -> None:
        if not self._claim:
            return
        if isinstance(line.first, Adopted):
            raise OriginRefusedError(
                "the root of this state was adopted: the root is older than its line, so nothing"
                " proves the first manifest; --claim-fingerprint requires the first manifest"
                f" {self._claim}",
                hint="begin a new deployment; or start without --claim-fingerprint, which checks no"
                " first manifest",
            )
        if line.first.manifest != self._claim:
            raise OriginRefusedError(
                f"the state begins with the manifest {line.first.manifest}; --claim-fingerprint"
                f" requires {self._claim}",
                hint="pass the fingerprint of the first manifest to --claim-fingerprint; keyhouse"
                " status prints the fingerprint",
            )

    def _require_adoption(self, state: Running, vouched: Vouched | None) -> None:
        """Raise ``OriginRefusedError`` unless the rule names the root of ``state``.

        The state has no line, so ``vouched`` must be None, and no manifest may be claimed.
        """
        if vouched is not None:
            raise _other_line("the line is missing")
        root = _root_of(state).hex()
        if self._claim:
            raise OriginRefusedError(
                "the state has no line, so nothing shows its first manifest; --claim-fingerprint"
                f" requires {self._claim}",
                hint="begin a new deployment; or start without --claim-fingerprint and with"
                f" --adopt-root; {_PAGE}",
            )
        if self.rule.adopted != root:
            named = f", and --adopt-root names {self.rule.adopted}" if self.rule.adopted else ""
            raise OriginRefusedError(
                f"{NOT_PROVEN}: the state has no line, as a state of an older version;"
                f" its root is {root}{named}",
                hint="compare this root with the root that your clients know; if they are equal,"
                f" start with --adopt-root {root}; {_PAGE}",
            )


def require_root_key(state: Running) -> None:
    """Raise ``OriginRefusedError`` unless the root key signs for the root certificate.

    The root key must have signed the manifest in force, too.
    """
    root, manifest = state.keys.root_cert, state.manifest
    signatures = (state.signature, authority.sign_manifest(state.keys, manifest))
    if not all(authority.is_signed_by_root(root, each, manifest) for each in signatures):
        raise OriginRefusedError(
            "the root key of the state does not belong to its root certificate, or has not signed"
            " the manifest",
            hint="restore the state from a backup",
        )


async def _manifests(state: Running, line: RootLine, read: ReadObject) -> dict[str, bytes]:
    """Return the manifests of ``line`` by fingerprint, as far as ``read`` returns them."""
    found = {fingerprint(state.manifest): state.manifest}
    for name in line.manifests:
        raw = found.get(name) or await read(name)
        if raw is not None and _is_readable(raw):
            found[name] = raw
    return found


def _is_readable(raw: bytes) -> bool:
    try:
        policy_of(raw)
    except KeyhouseError:  # a manifest of another version, which admits no code here
        return False
    return True


def _require_prefix(line: RootLine, mark: LineMark) -> None:
    if not line.continues(mark.entries, mark.last):
        raise _other_line("the line is shorter, or differs")


def _root_of(state: Running) -> bytes:
    return hashlib.sha256(state.keys.root_cert).digest()


def _other_line(difference: str) -> OriginRefusedError:
    return OriginRefusedError(
        f"the state is not the state that was proven before: {difference}",
        hint="restore the newest state: the present database or directory may be an old or a false"
        " copy",
    )


def _quote_refused(entry: Effective, refused: QuoteRefusedError) -> OriginRefusedError:
    if refused.reason is QuoteProblem.REVOKED:
        return OriginRefusedError(
            f"the quote of the manifest {entry.manifest} is from a revoked platform",
            hint="begin a new deployment",
        )
    return OriginRefusedError(
        f"{NOT_PROVEN}: the quote of the manifest {entry.manifest} does not verify:"
        f" {refused.message}",
        hint=refused.hint,
    )
