"""An enclave that the owner signed for a trial: its command, its state directory, its identity."""

import os
import tomllib
from pathlib import Path
from typing import Any, Final

from keyhouse.attestation import ExpectedIdentity, TcbStatus
from keyhouse.base.errors import RefusedError
from keyhouse.base.named_files import read_file
from keyhouse.cli.attest.package_info import read_sigstruct

_NAME: Final = "keyhouse"
_FILE: Final = "file:"
_RENDER: Final = (
    "render and sign the manifest for an empty directory of its own: gramine-manifest"
    " -Ddata_dir=DIR; see the page Deploy on SGX"
)


class EnclaveUnusableError(RefusedError):
    """The signed enclave cannot take part in a trial."""

    code = "enclave-unusable"


class TrialEnclave:
    """The enclave of ``keyhouse.manifest.sgx`` and ``keyhouse.sig`` in ``folder``."""

    words: Final = ("gramine-sgx", _NAME)

    def __init__(self, folder: Path) -> None:
        self._signature: Final = folder / f"{_NAME}.sig"
        self.state: Final = _state_of(folder, folder / f"{_NAME}.manifest.sgx")
        if not self.state.is_dir():
            raise EnclaveUnusableError(
                f"the state directory {self.state} of the enclave does not exist",
                hint=f"mkdir -m 700 {self.state}",
            )
        if any(os.scandir(self.state)):
            raise EnclaveUnusableError(
                f"the state directory {self.state} of the enclave is not empty: a trial begins with"
                " a new state, and removes the state at its end",
                hint=_RENDER,
            )

    def identity(self) -> ExpectedIdentity:
        """Return the identity of exactly this build, with every TCB status.

        The report states the status; a trial has no secret to protect.
        """
        signed = read_sigstruct(read_file(str(self._signature)))
        return ExpectedIdentity(unique_id=signed.unique_id, accepted_tcb_statuses=tuple(TcbStatus))


def _state_of(folder: Path, manifest: Path) -> Path:
    """Return the directory of the host that Gramine mounts as the state directory."""
    try:
        content: dict[str, Any] = tomllib.loads(read_file(str(manifest)).decode())
        argv, mounts = content["loader"]["argv"], content["fs"]["mounts"]
        inside = argv[argv.index("--data-dir") + 1]
        uri = next(each["uri"] for each in mounts if each.get("path") == inside)
    except (ValueError, KeyError, TypeError, IndexError, StopIteration, AttributeError):
        raise EnclaveUnusableError(
            f"{manifest} is not a manifest of Keyhouse: it has no mount for --data-dir",
            hint=_RENDER,
        ) from None
    return folder / str(uri).removeprefix(_FILE)
