"""Quotes that prove something else, with the keys of the coordinator or of a machine."""

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from keyhouse.attestation import Measurements, TcbStatus
from keyhouse_simulation import (
    COORDINATOR,
    Lists,
    Pck,
    QeIdentity,
    QuotedEnclave,
    QuoteParameters,
    QuotingEnclave,
    TcbInfo,
)
from support.evidence import Said
from support.forger.draft import Draft, Machine
from support.forger.kind import Forge, Kind, at_a_leaf

__all__ = ["HARDWARE"]

_DAY: Final = timedelta(days=1)
_LONG_AGO: Final = 9 * _DAY
_LATER: Final = -30 * _DAY

_CODES: Final[dict[str, Measurements]] = {
    "other code": replace(COORDINATOR, unique_id=b"\x4f" * 32),
    "another signer": replace(COORDINATOR, signer_id=b"\x4f" * 32),
    "another product": replace(COORDINATOR, product_id=3),
    "a lower version": replace(COORDINATOR, security_version=0),
}
"""No auditor accepts this code. Auditors accept higher versions of the expected code."""

_MACHINES: Final[dict[str, Machine]] = {
    "a machine of another vendor": Machine(is_strange=True),
    "a debug enclave": Machine(QuoteParameters(enclave=QuotedEnclave(debug=True))),
    "another quoting enclave": Machine(
        QuoteParameters(quoting_enclave=QuotingEnclave(signer=b"\x4f" * 32))
    ),
    "an old quoting enclave": Machine(
        QuoteParameters(quoting_enclave=QuotingEnclave(security_version=1))
    ),
    "a machine with older microcode": Machine(pck=Pck(cpu_svn=bytes(16))),
    "a machine of another kind": Machine(pck=Pck(fmspc=b"\1" * 6)),
}

_COLLATERAL: Final[dict[str, QuoteParameters]] = {
    "a TCB that is out of date": QuoteParameters(tcb_info=TcbInfo(status=TcbStatus.OUT_OF_DATE)),
    "a TCB that is revoked": QuoteParameters(tcb_info=TcbInfo(status=TcbStatus.REVOKED)),
    "a TCB that needs configuration": QuoteParameters(
        tcb_info=TcbInfo(status=TcbStatus.CONFIGURATION_NEEDED)
    ),
    "a quoting enclave that is out of date": QuoteParameters(
        qe_identity=QeIdentity(status=TcbStatus.OUT_OF_DATE)
    ),
    "a quoting enclave that is revoked": QuoteParameters(
        qe_identity=QeIdentity(status=TcbStatus.REVOKED)
    ),
    "no level": QuoteParameters(tcb_info=TcbInfo(pce_svn=99)),
    "a revoked platform": QuoteParameters(lists=Lists(revokes_pck=True)),
    "a revoked authority": QuoteParameters(lists=Lists(revokes_pck_ca=True)),
    "a revoked signer": QuoteParameters(lists=Lists(revokes_tcb_signer=True)),
    "TCB info that has expired": QuoteParameters(
        tcb_info=TcbInfo(issued_ago=_LONG_AGO, valid_for=_DAY)
    ),
    "TCB info of the future": QuoteParameters(tcb_info=TcbInfo(issued_ago=_LATER)),
    "a QE identity that has expired": QuoteParameters(
        qe_identity=QeIdentity(issued_ago=_LONG_AGO, valid_for=_DAY)
    ),
    "a QE identity of the future": QuoteParameters(qe_identity=QeIdentity(issued_ago=_LATER)),
    "lists that have expired": QuoteParameters(lists=Lists(issued_ago=_LONG_AGO, valid_for=_DAY)),
    "lists of the future": QuoteParameters(lists=Lists(issued_ago=_LATER)),
    "TCB info of another kind of machine": QuoteParameters(tcb_info=TcbInfo(fmspc=b"\1" * 6)),
    "TCB info of another PCE": QuoteParameters(tcb_info=TcbInfo(pce_id=b"\1\1")),
    "TCB info of another version": QuoteParameters(tcb_info=TcbInfo(version=2)),
    "TCB info for TDX": QuoteParameters(tcb_info=TcbInfo(id="TDX")),
    "other evaluation numbers": QuoteParameters(tcb_info=TcbInfo(evaluation_number=9)),
}

_BYTES: Final[dict[str, Callable[[bytes], bytes]]] = {
    "with a bit flipped": lambda raw: bytes(b ^ (n == len(raw) // 2) for n, b in enumerate(raw)),
    "with a bit of the report flipped": lambda raw: bytes(
        b ^ (n == 120) for n, b in enumerate(raw)
    ),
    "with a byte less": lambda raw: raw[:-1],
    "with a byte more": lambda raw: raw + b"\0",
    "with half of it": lambda raw: raw[: len(raw) // 2],
    "of nothing": lambda _: b"",
}

_START_BINDS: Final[dict[str, dict[str, Any]]] = {
    "another place": {"size": 1},
    "a later place": {"size": 99},
    "another tree": {"tree": b"\1" * 32},
    "another root certificate": {"root": b"another"},
    "another instance": {"instance": bytes(16)},
    "nothing": {"data": bytes(64)},
    "the root alone": {"data": None, "alone": True},
}

_HEAD_BINDS: Final[dict[str, dict[str, Any]]] = {
    "another checkpoint": {"text": b"another checkpoint\n"},
    "no checkpoint": {"text": b""},
    "another root certificate": {"root": b"another"},
    "another nonce": {"shown": b"\1" * 32},
    "nothing": {"data": bytes(64)},
}


def _head(**fields: Any) -> Forge:
    def forge(draft: Draft, chance: Random) -> bool:
        del chance
        draft.head.update(fields)
        return True

    return forge


def _start(**fields: Any) -> Forge:
    def change(_draft: Draft, _place: int, leaf: Said, _chance: Random) -> None:
        leaf["_quote"] = fields

    return at_a_leaf(("started",), change)


def _stated(code: Measurements) -> Forge:
    """Return a forgery: the log states a start of ``code``, and a quote proves the start."""

    def change(_draft: Draft, _place: int, leaf: Said, _chance: Random) -> None:
        leaf.update(unique=code.unique_id.hex(), signer=code.signer_id.hex())
        leaf.update(product=code.product_id, svn=code.security_version)

    return at_a_leaf(("started",), change)


def _other_version(stated: int, proven: int) -> Forge:
    """Return a forgery with a stated version and a different proven version.

    An auditor accepts both versions.
    """

    def change(_draft: Draft, _place: int, leaf: Said, _chance: Random) -> None:
        leaf["svn"] = stated
        leaf["_quote"] = {"code": replace(COORDINATOR, security_version=proven)}

    return at_a_leaf(("started",), change)


def _start_collateral(parameters: QuoteParameters) -> Forge:
    def change(_draft: Draft, _place: int, leaf: Said, _chance: Random) -> None:
        leaf["_collateral"] = parameters

    return at_a_leaf(("started",), change)


HARDWARE: Final = [
    *(Kind(f"head quote: of {name}", "machine", _head(code=code)) for name, code in _CODES.items()),
    *(
        Kind(f"head quote: of {name}", "machine", _head(machine=machine))
        for name, machine in _MACHINES.items()
    ),
    *(
        Kind(f"head quote: {name}", "nobody", _head(rewrite=change))
        for name, change in _BYTES.items()
    ),
    *(
        Kind(f"head quote: binds {name}", "machine", _head(**how))
        for name, how in _HEAD_BINDS.items()
    ),
    *(
        Kind(f"head quote: {name}", "machine", _head(parameters=parameters))
        for name, parameters in _COLLATERAL.items()
    ),
    *(
        Kind(f"start quote: of {name}, which the leaf hides", "machine", _start(code=code))
        for name, code in _CODES.items()
    ),
    *(Kind(f"start quote: of {name}", "machine", _stated(code)) for name, code in _CODES.items()),
    *(
        Kind(f"start quote: of {name}", "machine", _start(machine=machine))
        for name, machine in _MACHINES.items()
    ),
    Kind("start quote: of a lower version than stated", "machine", _other_version(9, 1)),
    Kind("start quote: of a higher version than stated", "machine", _other_version(1, 9)),
    *(
        Kind(f"start quote: {name}", "nobody", _start(rewrite=change))
        for name, change in _BYTES.items()
    ),
    *(
        Kind(f"start quote: binds {name}", "machine", _start(**how))
        for name, how in _START_BINDS.items()
    ),
    *(
        Kind(f"start quote: {name}", "machine", _start_collateral(parameters))
        for name, parameters in _COLLATERAL.items()
    ),
]
