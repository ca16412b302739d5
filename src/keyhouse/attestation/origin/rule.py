"""The code, TCB statuses and platforms that a coordinator accepts in the line of a root.

All of them are measured settings. A manifest of the line may admit further code, but only for later
entries. So a journal never chooses the rules for itself.
"""

import hashlib
from typing import Final

import msgspec

from keyhouse.attestation.appraisal import accept_status
from keyhouse.attestation.errors import IdentityRefusedError
from keyhouse.attestation.quote.report import Report, Verdict, VmMeasurements, tee_of
from keyhouse.base.errors import RefusedError
from keyhouse.transparency.line import Code
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

    def accepts(self, found: Verdict, own: Report) -> bool:
        """Return whether accepted code made the verified quote ``found``.

        ``own``: the report of this process. The field ``own`` accepts the same code. ``signer``
        accepts code with the same signer and product, from the version ``least_svn`` on.
        """
        if found.debug:
            return False
        if found.measurements is not None:
            return self._accepts_vm(found, found.measurements, own)
        same_product = (found.mrsigner, found.isvprodid) == (own.mrsigner, own.isvprodid)
        by_signer = self.signer and same_product and found.isvsvn >= self.least_svn
        by_own = self.own and own.measurements is None
        return (
            (by_own and found.mrenclave == own.mrenclave and same_product)
            or (by_signer and bool(own.mrsigner))
            or found.mrenclave.hex() in self.unique_ids
        )

    def _accepts_vm(self, found: Verdict, vm: VmMeasurements, own: Report) -> bool:
        wanted = [each for each in self.vms if tee_of(each) is found.tee]
        # A boot without a measured kernel or command line could have started any code.
        if self.own and vm.boot_is_measured and own.vm and tee_of(own.vm) is found.tee:
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

    def require_platform(self, found: Verdict) -> None:
        """Raise ``OriginRefusedError`` unless the platform of ``found`` is accepted.

        AMD states no status; ``MinimumTCB`` of the accepted identity covers AMD platforms.
        """
        platform = found.ppid.hex()
        if self.platforms and platform not in self.platforms:
            raise OriginRefusedError(
                f"the platform {platform} is not in --origin-platforms",
                hint="add this platform to --origin-platforms if it was yours",
            )
        if not found.tee.states_tcb:
            return
        try:
            accept_status(found.tcb_status, self.statuses)
        except IdentityRefusedError as refused:
            raise OriginRefusedError(
                f"{refused.message}: --origin-tcb is {','.join(self.statuses)}",
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


def in_words(found: Report) -> str:
    """Return a name of the code of ``found`` for error texts."""
    code = code_of(found, "-")
    return f"UniqueID:{code.unique}" if not code.vm else f"the confidential VM {code.vm}"
