"""The identity that a client expects: the attestation configuration file."""

import binascii
from collections.abc import Sequence

import msgspec

from keyhouse.attestation.errors import ConfigurationRefusedError
from keyhouse.base.errors import BadRequestError, Problem
from keyhouse.base.hex_repr import Readable
from keyhouse.wire.base64_text import decode_base64
from keyhouse.wire.json_decoder import nearest, read
from keyhouse.wire.json_parser import UnreadableError
from keyhouse.wire.kinds.identity import VmIdentity
from keyhouse.wire.kinds.named_vm import NamedVm
from keyhouse.wire.tcb_status import TcbStatus

_ID = 32  # bytes of MRENCLAVE and MRSIGNER: SHA-256
_MAX_NUMBER = 0xFFFF  # ISVPRODID and ISVSVN have 16 bits
_MAX_FILE = 1 << 20  # bytes, chosen: a file has less than 2,000
_MAX_NONCE = 1024  # bytes, chosen: nonces of the Client API have the same limit


class ExpectedIdentity(NamedVm, Readable, frozen=True, kw_only=True):
    """The identity of the coordinator that a client trusts: of one version, or of many versions.

    An identity that would admit any enclave raises ``ConfigurationRefusedError``. For an enclave,
    the identity has a ``unique_id``, or a ``signer_id`` with ``product_id`` and
    ``security_version`` above 0. For a VM, it has ``tdx`` or ``snp``, and no field of an enclave.
    ``b""``, 0 and ``()`` mean not given. A string in place of a tuple raises ``TypeError``. Source:
    ``docs/reference/files.md``, "Attestation file".
    """

    unique_id: bytes = b""  # MRENCLAVE, 32 bytes
    signer_id: bytes = b""  # MRSIGNER, 32 bytes
    product_id: int = 0  # equals ISVPRODID
    security_version: int = 0  # minimum of ISVSVN
    debug: bool = False
    accepted_tcb_statuses: tuple[TcbStatus, ...] = ()
    accepted_advisories: tuple[str, ...] = ()
    nonce: bytes = b""

    def __post_init__(self) -> None:
        for field in ("accepted_tcb_statuses", "accepted_advisories"):
            listed = getattr(self, field)
            if isinstance(listed, str):  # `in` would accept any part of the text as an entry
                raise TypeError(f"{field} must be a tuple: pass {field}=({listed!r},)")
        if len(self.vms) > 1:
            names = " and ".join(each.FIELD for each in self.vms)
            raise _configuration(f"the file names both {names}, must name only one of them")
        if self.vm is not None:
            self._require_only(self.vm)
            return
        for name, value in (("UniqueID", self.unique_id), ("SignerID", self.signer_id)):
            if len(value) not in {0, _ID}:
                raise _configuration(f"{name} has {len(value)} bytes, must have {_ID}")
        numbers = (("ProductID", self.product_id), ("SecurityVersion", self.security_version))
        for name, number in numbers:
            if not 0 <= number <= _MAX_NUMBER:
                raise _configuration(f"{name} is not a number from 0 to {_MAX_NUMBER}")
        triple = self.signer_id and self.product_id and self.security_version
        if not (self.unique_id or triple):
            raise _configuration(
                "the file does not identify the coordinator, so other code would match",
                hint="write UniqueID; or SignerID with ProductID and SecurityVersion of 1 or more;"
                " or TDX or SNP",
            )

    def _require_only(self, vm: VmIdentity) -> None:
        kind = vm.FIELD
        if self.unique_id or self.signer_id or self.product_id or self.security_version:
            raise _configuration(f"the file names both an enclave and {kind}, must name only one")
        if problems := [
            Problem(f"{kind}.{found.at}", found.problem, found.hint) for found in vm.problems()
        ]:
            raise _configuration("; ".join(map(str, problems)), problems)


class _File(NamedVm, frozen=True):
    unique_id: str = msgspec.field(default="", name="UniqueID")
    signer_id: str = msgspec.field(default="", name="SignerID")
    security_version: int = msgspec.field(default=0, name="SecurityVersion")
    product_id: int = msgspec.field(default=0, name="ProductID")
    debug: bool = msgspec.field(default=False, name="Debug")
    statuses: tuple[str, ...] = msgspec.field(default=(), name="AcceptedTCBStatuses")
    advisories: tuple[str, ...] = msgspec.field(default=(), name="AcceptedAdvisories")
    nonce: str = msgspec.field(default="", name="Nonce")
    skip: bool = msgspec.field(default=False, name="InsecureSkipVerify")


def read_expected_identity(data: bytes) -> ExpectedIdentity:
    """Return the identity in an attestation configuration file, JSON.

    Field names match in any case. Unknown and repeated fields are refused, because a misspelt
    restriction must never mean no restriction. Raises ``ConfigurationRefusedError``.
    """
    if len(data) > _MAX_FILE:
        raise _configuration(f"the file has more than {_MAX_FILE} bytes")
    try:
        found = read(data, _File)
    except UnreadableError as exc:
        raise _configuration("; ".join(map(str, exc.problems[:5])), exc.problems) from None
    if found.problems:
        raise _configuration("; ".join(map(str, found.problems[:5])), found.problems)
    file = found.value
    if file.skip:
        raise _configuration(
            "InsecureSkipVerify is true, but verification is never skipped",
            hint="remove InsecureSkipVerify from the attestation file",
        )
    return ExpectedIdentity(
        unique_id=_identifier("UniqueID", file.unique_id),
        signer_id=_identifier("SignerID", file.signer_id),
        product_id=file.product_id,
        security_version=file.security_version,
        debug=file.debug,
        accepted_tcb_statuses=tuple(_status(*each) for each in enumerate(file.statuses)),
        accepted_advisories=file.advisories,
        nonce=_nonce(file.nonce),
        **file.vms_in_lower_case(),
    )


def _identifier(name: str, text: str) -> bytes:
    try:
        return binascii.unhexlify(text)
    except ValueError:
        raise _field(name, "is not a hex string") from None


def _status(index: int, text: str) -> TcbStatus:
    try:
        return TcbStatus(text)
    except ValueError:
        here = f"AcceptedTCBStatuses[{index}]"
        raise _field(here, "is not a TCB status", nearest(text, tuple(TcbStatus))) from None


def _nonce(text: str) -> bytes:
    try:
        return decode_base64(text, maximum=_MAX_NONCE)
    except BadRequestError as exc:
        raise _field("Nonce", exc.message) from None


def _field(at: str, problem: str, hint: str = "") -> ConfigurationRefusedError:
    found = Problem(at, problem, hint)
    return _configuration(str(found), [found])


def _configuration(
    problem: str,
    problems: Sequence[Problem] = (),
    hint: str = "correct the attestation file; docs/reference/files.md describes each field",
) -> ConfigurationRefusedError:
    return ConfigurationRefusedError(
        f"the attestation configuration cannot be used: {problem}", hint=hint, problems=problems
    )
