"""An enclave that the owner signed for a trial: its command, its state directory, its identity."""

import os
import re
import tomllib
from pathlib import Path
from typing import Any, Final

from keyhouse.attestation import ExpectedIdentity, TcbStatus
from keyhouse.base.errors import RefusedError
from keyhouse.base.user_files import read_file
from keyhouse.cli.attest.package_info import read_sigstruct
from keyhouse.cli.doctor.hardware.report import EnclaveSettings

_NAME: Final = "keyhouse"
_FILE: Final = "file:"
_SIZE: Final = re.compile("[0-9]{1,9}[KMG]?")
_RENDER: Final = (
    "render and sign the manifest for an empty directory of its own: gramine-manifest"
    " -Ddata_dir=DIR; see the page Deploy on SGX"
)


class EnclaveUnusableError(RefusedError):
    """The signed enclave of --enclave cannot be used for a trial."""

    code = "enclave-unusable"


class TrialEnclave:
    """The enclave of ``keyhouse.manifest.sgx`` and ``keyhouse.sig`` in ``folder``.

    Raises ``EnclaveUnusableError`` unless the host's directory for the state exists and is empty.
    """

    words: Final = ("gramine-sgx", _NAME)

    def __init__(self, folder: Path) -> None:
        self._signature: Final = folder / f"{_NAME}.sig"
        manifest = folder / f"{_NAME}.manifest.sgx"
        content = _content_of(manifest)
        self.settings: Final = _settings_in(content)
        self.state: Final = folder / _state_in(content, manifest)
        if not self.state.is_dir():
            raise EnclaveUnusableError(
                f"the state directory {self.state} of the enclave does not exist",
                hint=f"create the directory: mkdir -m 700 {self.state}",
            )
        if any(os.scandir(self.state)):
            raise EnclaveUnusableError(
                f"the state directory {self.state} of the enclave is not empty: a trial begins with"
                " a new state, and removes the state at its end",
                hint=_RENDER,
            )

    def identity(self) -> ExpectedIdentity:
        """Return the expected identity: the measurement of this build, and every TCB status.

        Every TCB status is accepted, because a trial has no real secret to protect.
        """
        signed = read_sigstruct(read_file(str(self._signature)))
        return ExpectedIdentity(unique_id=signed.unique_id, accepted_tcb_statuses=tuple(TcbStatus))


def _content_of(manifest: Path) -> dict[str, Any]:
    """Return the content of Gramine's signed manifest (TOML) in the file ``manifest``.

    Raises ``EnclaveUnusableError``.
    """
    try:
        return tomllib.loads(read_file(str(manifest)).decode())
    except ValueError:
        raise EnclaveUnusableError(f"{manifest} is not TOML in UTF-8", hint=_RENDER) from None


def _state_in(content: dict[str, Any], manifest: Path) -> str:
    """Return the host's directory that Gramine mounts as the coordinator's state directory.

    ``content`` is the content of Gramine's manifest in the file ``manifest``.
    """
    try:
        argv, mounts = content["loader"]["argv"], content["fs"]["mounts"]
        inside = argv[argv.index("--data-dir") + 1]
        uri = next(each["uri"] for each in mounts if each.get("path") == inside)
    except (ValueError, KeyError, TypeError, IndexError, StopIteration, AttributeError):
        raise EnclaveUnusableError(
            f"{manifest} is not a manifest of Keyhouse for Gramine: no mount is for --data-dir",
            hint=_RENDER,
        ) from None
    return str(uri).removeprefix(_FILE)


def _settings_in(content: dict[str, Any]) -> EnclaveSettings:
    """Return the settings in ``content``, the content of Gramine's manifest.

    A value of a wrong type counts as missing.
    """
    tables = content.get("sgx")
    sgx = tables if isinstance(tables, dict) else {}
    size, threads, edmm = (sgx.get(name) for name in ("enclave_size", "max_threads", "edmm_enable"))
    return EnclaveSettings(
        enclave_size=size if isinstance(size, str) and _SIZE.fullmatch(size) else "",
        max_threads=threads if type(threads) is int else None,
        edmm=edmm if isinstance(edmm, bool) else None,
    )
