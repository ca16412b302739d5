"""The kind of this machine: kernel, processor, microcode and firmware, without its identity."""

import os
import re
import ssl
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from keyhouse.base.version import VERSION
from keyhouse.cli.doctor.hardware.report import MachineKind, Versions

_KERNEL: Final = re.compile(r"[0-9]+(?:\.[0-9]+){1,2}")
_ADDRESS: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+")  # also versions with four parts
_TEXT: Final = re.compile(r"[A-Za-z0-9 ()._,/+-]{1,64}")
_SHORTEST_NAME: Final = 3  # a shorter host name is part of many words
_LARGEST: Final = 1 << 20  # bytes: machines with many processors have long files
_FIRMWARE: Final = {
    "firmware_vendor": "bios_vendor",
    "firmware_version": "bios_version",
    "firmware_date": "bios_date",
}
_PROCESSOR: Final = {
    "cpu_vendor": "vendor_id",
    "cpu_family": "cpu family",
    "cpu_model": "model",
    "cpu_stepping": "stepping",
    "microcode": "microcode",
}


def versions() -> Versions:
    """Return the versions of the programs that the trial uses."""
    from cryptography.hazmat.backends.openssl import backend

    try:
        verifier = version("dcap-qvl")
    except PackageNotFoundError:
        verifier = ""
    return Versions(
        keyhouse=VERSION,
        python=".".join(map(str, sys.version_info[:3])),
        openssl=ssl.OPENSSL_VERSION,
        cryptography_openssl=backend.openssl_version_text(),
        dcap_qvl=verifier,
    )


def machine(system: Path = Path("/"), names: os.uname_result | None = None) -> MachineKind:
    """Return the kind of the machine with ``/proc`` and ``/sys`` below the folder ``system``.

    ``names``: the result of uname(2), or None for this machine. No field is for a serial number, a
    UUID, an address or a name of a host. A text of processor or firmware is left out if it contains
    the name of the host, or four numbers between dots, as in an address.
    """
    uname = names or os.uname()
    processor = _first_processor(system / "proc" / "cpuinfo")
    firmware = system / "sys" / "class" / "dmi" / "id"
    texts = {
        **{field: processor.get(key, "") for field, key in _PROCESSOR.items()},
        **{field: _content(firmware / name).strip() for field, name in _FIRMWARE.items()},
    }
    kernel = _KERNEL.match(uname.release)
    return MachineKind(
        architecture=_shareable(uname.machine, uname.nodename),
        kernel=kernel[0] if kernel else "",
        **{field: _shareable(text, uname.nodename) for field, text in texts.items()},
    )


def _first_processor(path: Path) -> Mapping[str, str]:
    """Return the fields of the first processor in ``path``, in the format of ``/proc/cpuinfo``."""
    first = _content(path).partition("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _shareable(text: str, host: str) -> str:
    """Return ``text``, or "" if the text has unusual characters, an address, or the name ``host``.

    ``host`` is the machine's own name.
    """
    names = {host.lower(), host.lower().partition(".")[0]}
    named = any(len(name) >= _SHORTEST_NAME and name in text.lower() for name in names)
    is_plain = _TEXT.fullmatch(text) and not _ADDRESS.search(text)
    return text if is_plain and not named else ""


def _content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""  # virtual machines and containers lack some of these files
