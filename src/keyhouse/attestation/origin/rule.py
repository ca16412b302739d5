"""The rule about the line of a root: accepted code applied each manifest.

The rule names the code, TCB statuses and platforms that a coordinator accepts. All of them are
measured settings. A manifest of the line may admit further code, but only for later entries. So a
journal never chooses the rules for itself. ``require_line`` verifies the proof of a line:

1. The first entry is ``created``, by code that the measured rule accepts. Or the first entry is
   ``adopted``, for the root in the rule.
2. The rule, or an earlier manifest in this line, accepts the code of each later ``manifest``. The
   check begins at the first entry, so no later entry vouches for an earlier entry.
3. Each of these entries has a quote over its hash. The hash covers all earlier entries. The caller
   has verified the quote and checked its platform (``judged``).

Pure: quotes are verified elsewhere.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from keyhouse.attestation.errors import IdentityRefusedError
from keyhouse.attestation.quote.binding import entry_report_data, require_report_data
from keyhouse.attestation.quote.report import Report, Verdict, VmMeasurements, tee_of
from keyhouse.base.errors import RefusedError
from keyhouse.transparency.line import Adopted, Code, Created, Effective, RootLine, hash_of
from keyhouse.wire.kinds.identity import VmIdentity

_RULE: Final = b"keyhouse origin rule v1\0"


class OriginRefusedError(RefusedError):
    """The origin of this state's root is not proven, or the proof violates a rule."""

    code = "origin-refused"


class AcceptedCode(msgspec.Struct, frozen=True):
    """The code that may have made a root and applied its manifests (setting ``--predecessors``)."""

    own: bool = True
    signer: bool = True  # code of the own signer and product
    least_svn: int = 0  # of ``signer``
    unique_ids: tuple[str, ...] = ()  # MRENCLAVE, lower-case hex
    vms: tuple[VmIdentity, ...] = ()

    def accepts(self, verdict: Verdict, own: Report) -> bool:
        """Return whether accepted code made the quote of ``verdict``.

        The parameter ``own`` is the report of this process. The field ``own`` of the class accepts
        exactly the code of this report. The field ``signer`` accepts code with the signer and
        product of this report, from the version ``least_svn`` on.
        """
        if verdict.debug:
            return False
        if verdict.measurements is not None:
            return self._accepts_vm(verdict, verdict.measurements, own)
        same_product = (verdict.mrsigner, verdict.isvprodid) == (own.mrsigner, own.isvprodid)
        by_signer = self.signer and same_product and verdict.isvsvn >= self.least_svn
        by_own = self.own and own.measurements is None
        return (
            (by_own and verdict.mrenclave == own.mrenclave and same_product)
            or (by_signer and bool(own.mrsigner))
            or verdict.mrenclave.hex() in self.unique_ids
        )

    def _accepts_vm(self, verdict: Verdict, vm: VmMeasurements, own: Report) -> bool:
        wanted = [each for each in self.vms if tee_of(each) is verdict.tee]
        # A boot without a measured kernel or command line could have started any code.
        if self.own and vm.boot_is_measured and own.vm and tee_of(own.vm) is verdict.tee:
            wanted.append(own.vm)
        return any(not any(vm.differences(each)) for each in wanted)


class OriginRule(msgspec.Struct, frozen=True):
    """The measured settings about the origin of a root."""

    code: AcceptedCode = AcceptedCode()
    statuses: tuple[str, ...] = ("UpToDate",)  # accepted for the platform of an entry
    current: bool = False  # use today's collateral, not the entry's
    platforms: tuple[str, ...] = ()  # PPID or CHIP_ID in lower-case hex; empty: any
    adopted: str = ""  # SHA-256 of a root without a proven origin, in lower-case hex

    @property
    def digest(self) -> bytes:
        """The SHA-256 of this rule. Seals and notes contain it, for comparisons of rules."""
        return hashlib.sha256(_RULE + msgspec.json.encode(self, order="sorted")).digest()

    def require_platform(self, verdict: Verdict) -> None:
        """Raise ``OriginRefusedError`` unless the platform of ``verdict`` is accepted.

        AMD states no status; ``MinimumTCB`` of the accepted identity covers AMD platforms.
        """
        platform = verdict.ppid.hex()
        if self.platforms and platform not in self.platforms:
            raise OriginRefusedError(
                f"the platform {platform} is not in --origin-platforms",
                hint="add this platform to --origin-platforms if it was yours",
            )
        if not verdict.tee.states_tcb:
            return
        from keyhouse.attestation.appraisal import accept_status  # no start has a verdict

        try:
            accept_status(verdict.tcb_status, self.statuses)
        except IdentityRefusedError as refused:
            raise OriginRefusedError(
                f"{refused.message}: --origin-tcb lists {', '.join(self.statuses)}",
                hint="list the status in --origin-tcb if you accept such platforms",
            ) from None


def code_of(report: Report, version: str) -> Code:
    """Return the code of ``report`` as an entry of the line states it.

    ``version``: the version of Keyhouse in this code.
    """
    vm = report.vm
    if vm is not None:
        digest = hashlib.sha256(b"keyhouse member v1\0" + msgspec.json.encode(vm)).hexdigest()
        return Code(tee_of(vm).value, "", "", 0, 0, digest, version)
    signer, unique = report.mrsigner.hex(), report.mrenclave.hex()
    return Code("sgx", unique, signer, report.isvprodid, report.isvsvn, "", version)


def in_words(report: Report) -> str:
    """Return a name of the code of ``report`` for error texts."""
    code = code_of(report, "-")
    return f"UniqueID:{code.unique}" if not code.vm else f"the confidential VM {code.vm}"


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


def _require_bound(verdict: Verdict, root_der: bytes, raw: bytes) -> None:
    try:
        require_report_data(verdict.report_data, entry_report_data(root_der, hash_of(raw)))
    except IdentityRefusedError:
        raise OriginRefusedError(
            f"{NOT_PROVEN}: a quote of the line was made for another entry",
            hint="restore the state from a backup",
        ) from None


def _require_code(report: Verdict, entry: Effective, judge: Judge, before: list[str]) -> None:
    if code_of(report, entry.code.version) != entry.code:
        raise OriginRefusedError(
            "an entry of the line and the quote of the entry name different code",
            hint="restore the state from a backup",
        )
    if judge.rule.code.accepts(report, judge.own):
        return
    if isinstance(entry, Created):
        raise OriginRefusedError(
            f"{NOT_PROVEN}: it was made by {in_words(report)}, which --predecessors does not"
            " accept",
            hint=f"add {in_words(report)} to --predecessors if you ran this code",
        )
    if not any(judge.admits(manifest, report) for manifest in before):
        raise OriginRefusedError(
            f"the manifest {entry.manifest} took effect by the code {in_words(report)}, which"
            " neither --predecessors nor an earlier manifest accepts",
            hint=f"add {in_words(report)} to --predecessors if you ran this code",
        )
