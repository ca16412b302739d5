"""The measured settings about the origin of a root certificate, and their parsers."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from keyhouse.base.printable import os_reason
from keyhouse.base.process.flags import SettingRefusedError, measured
from keyhouse.wire.tcb_status import TcbStatus

if TYPE_CHECKING:
    from keyhouse.attestation.origin.rule import OriginRule
    from keyhouse.wire.kinds.identity import VmIdentity

_HEX: Final = r"[0-9a-f]{64}"
_PLATFORM: Final = r"[0-9a-f]{32}|[0-9a-f]{128}"
_SVN: Final = r"signer(?::(0|[1-9][0-9]{0,4}))?"
_WORDS: Final = "own, signer, signer:SVN, UniqueID:HEX or file:PATH, with commas between them"
_CURRENT: Final = "current"
_LONGEST: Final = 1 << 20  # bytes of a file, chosen: an attestation file has less than 2,000


class Predecessors(NamedTuple):
    """The code that may have made the root and its line: the value of ``--predecessors``."""

    own: bool
    signer: bool
    least_svn: int
    unique_ids: tuple[str, ...]
    vms: "tuple[VmIdentity, ...]"


def predecessors(value: str, source: str) -> Predecessors | None:
    """Return the code in ``value``, or None for an empty value.

    ``source``: the setting, for errors. Raises ``SettingRefusedError``.
    """
    if not value:
        return None
    own, signer, svn = False, False, 0
    unique: list[str] = []
    vms: list[VmIdentity] = []
    for word in value.split(","):
        kind, _, rest = word.partition(":")
        if word == "own":
            own = True
        elif found := re.fullmatch(_SVN, word):
            signer, svn = True, int(found[1] or 0)
        elif kind == "UniqueID" and re.fullmatch(_HEX, rest.lower()):
            unique.append(rest.lower())
        elif kind == "file" and rest:
            vms.append(_identity(Path(rest), source))
        else:
            raise SettingRefusedError(f"{source} has an invalid value", hint=f"pass {_WORDS}")
    return Predecessors(own, signer, svn, tuple(sorted(unique)), tuple(vms))


def _identity(path: Path, source: str) -> "VmIdentity":
    """Return the identity of the confidential VM in the attestation file ``path``.

    ``source``: the setting, for errors.
    """
    from keyhouse.attestation import ConfigurationRefusedError, read_expected_identity

    try:
        with path.open("rb") as file:
            expected = read_expected_identity(file.read(_LONGEST + 1))
    except (OSError, ConfigurationRefusedError) as error:
        if isinstance(error, ConfigurationRefusedError):
            why = error.message
        else:
            why = f"the file cannot be read: {os_reason(error)}"
        raise SettingRefusedError(
            f"{source} names the file {path}: {why}",
            hint="pass a readable attestation file with TDX or SNP",
        ) from None
    if expected.vm is None:
        raise SettingRefusedError(
            f"{source} names the file {path}, which must name a confidential VM, not an enclave",
            hint="name an enclave as UniqueID:HEX",
        )
    return expected.vm


def statuses(value: str, source: str) -> tuple[str, ...]:
    """Return the words in ``value`` of ``--origin-tcb``: TCB statuses, and possibly ``current``.

    ``source``: the setting, for errors.
    """
    given = tuple(value.split(","))
    known = {str(each) for each in TcbStatus} - {str(TcbStatus.REVOKED)}
    if not set(given) <= known | {_CURRENT}:
        hint = f"pass some of {', '.join(sorted(known))}, {_CURRENT}, with commas between them"
        raise SettingRefusedError(f"{source} has an invalid value", hint=hint)
    return tuple(sorted(set(given)))


def platforms(value: str, source: str) -> tuple[str, ...]:
    """Return the platforms in ``value``: PPIDs or CHIP_IDs in lower-case hex, sorted.

    ``source`` names the setting in errors. Raises ``SettingRefusedError``.
    """
    given = tuple(sorted(value.lower().split(","))) if value else ()
    if not all(re.fullmatch(_PLATFORM, each) for each in given):
        raise SettingRefusedError(
            f"{source} has an invalid value",
            hint="pass PPIDs of 32 hex digits, or AMD's CHIP_IDs of 128 hex digits, with commas"
            " between them",
        )
    return given


def root(value: str, source: str) -> str:
    """Return ``value``, the SHA-256 of a root certificate, in lower-case hex, or "".

    ``source``: the setting, for errors.
    """
    if value and not re.fullmatch(_HEX, value.lower()):
        raise SettingRefusedError(
            f"{source} is not the SHA-256 of a root certificate",
            hint="pass 64 hex digits, as keyhouse status prints them",
        )
    return value.lower()


ORIGIN_SETTINGS: Final = (
    measured(
        "--predecessors",
        f"code that may have made the root and applied its manifests: {_WORDS}; default:"
        " own,signer, but own alone with --claim-fingerprint",
        read=predecessors,
    ),
    measured(
        "--origin-tcb",
        "accepted TCB statuses of the platforms of the code in --predecessors, with commas between"
        " them; add current to judge by the collateral of today",
        "UpToDate",
        read=statuses,
    ),
    measured(
        "--origin-platforms",
        "the only platforms on which the code in --predecessors may have run: PPIDs (AMD:"
        " CHIP_IDs) in hex, with commas between them",
        read=platforms,
    ),
    measured(
        "--adopt-root",
        "SHA-256 of the root certificate of a state from an older version that proves no origin of"
        " the root; you vouch for this root, as long as the deployment exists",
        read=root,
    ),
)


def origin_rule(
    given: Predecessors | None,
    tcb: tuple[str, ...],
    listed: tuple[str, ...],
    adopted: str,
    *,
    is_claimed: bool,
) -> "OriginRule":
    """Return the rule about the code that may have made a root, from the values of the flags.

    ``given``: ``--predecessors``; ``tcb``: ``--origin-tcb``; ``listed``: ``--origin-platforms``;
    ``adopted``: ``--adopt-root``. ``is_claimed``: ``--claim-fingerprint`` is set. Then, without
    ``--predecessors``, only the code of this process is accepted.
    """
    from keyhouse.attestation.origin.rule import AcceptedCode, OriginRule

    code = AcceptedCode(signer=not is_claimed) if given is None else AcceptedCode(**_fields(given))
    accepted = tuple(each for each in tcb if each != _CURRENT) or ("UpToDate",)
    return OriginRule(code, accepted, _CURRENT in tcb, listed, adopted)


def _fields(given: Predecessors) -> dict[str, Any]:
    return given._asdict()
