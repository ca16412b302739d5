"""Sign the enclave, and write its measurement as an attestation (in-toto Statement v1).

The subjects are the runtime, the wheels in the enclave, the signed manifest and the signature.
The predicate has the identity in the signature (SIGSTRUCT), the measured settings, and Gramine's
version and loader. Without a signed enclave, the predicate states the reason, and the identity is
null.
"""

import hashlib
import json
import re
import shutil
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from keyhouse.cli.attest.package_info import read_sigstruct
from keyhouse.cli.release.sums import digest
from releasing.build import Build, Missing

PREDICATE: Final = "urn:keyhouse:measurement:v1"

_SCRIPT: Final = Path(__file__).with_name("enclave.sh")
_TEMPLATE: Final = "deploy/gramine/keyhouse.manifest.template"
_TOOLS: Final = ("gramine-manifest", "gramine-sgx-sign")
_SUBJECTS: Final = re.compile(
    r"keyhouse_(base|coordinator)-.*\.whl|.*-gramine-runtime\.tar\.gz|.*\.manifest\.sgx|.*\.sig"
)
_DATE: Final = "%Y-%m-%d"


class Enclave(NamedTuple):
    """The inputs for signing an enclave: the vendor's RSA key, and the security version."""

    key: Path | None
    security_version: int

    @property
    def variables(self) -> dict[str, str]:
        """The variables of the template, for ``gramine-manifest -DNAME=VALUE``."""
        return {
            "keyhouse_dir": "/opt/keyhouse",
            "arch_libdir": "/opt/keyhouse/lib",
            "data_dir": "/data/state",
            "isv_svn": str(self.security_version),
        }


class Signed(NamedTuple):
    """A signed enclave: its signature (SIGSTRUCT), and Gramine's version and loader."""

    signature: Path
    gramine: str
    loader: Path


def enclave_hindrance() -> str:
    """Return the reason that this machine cannot sign an enclave, or an empty text."""
    absent = [tool for tool in _TOOLS if not shutil.which(tool)]
    return f"not installed, of Gramine: {', '.join(absent)}" if absent else ""


def sign_enclave(build: Build, runtime: Path | None, enclave: Enclave) -> tuple[Signed | None, str]:
    """Sign the enclave of ``runtime``; write manifest and signature beside the outputs.

    Returns None and a reason if this machine or a missing input prevents a signature.
    """
    hindrance = enclave_hindrance()
    if hindrance:
        return None, hindrance
    if runtime is None:
        return None, "there is no runtime to measure"
    if enclave.key is None:
        return None, "--enclave-key names no signing key"
    place = build.folder.parent / "enclave"
    words = ["sh", _SCRIPT, runtime, place, build.folder.parent / "opt-enclave"]
    build.around.run(
        [
            *("unshare", "--user", "--mount", "--map-root-user", *words),
            *(f"-D{name}={value}" for name, value in enclave.variables.items()),
        ],
        build.tree,
        ENCLAVE_KEY=str(enclave.key.resolve()),
        # The date of the build time, so two builds have equal signatures.
        SIGNING_DATE=time.strftime(_DATE, time.gmtime(build.inputs.time)),
    )
    output = build.folder / f"keyhouse-{build.inputs.version}"
    shutil.copyfile(place / "keyhouse.manifest.sgx", f"{output}.manifest.sgx")
    signature = Path(f"{output}.sig")
    shutil.copyfile(place / "keyhouse.sig", signature)
    version, loader = (place / "gramine").read_text(encoding="utf-8").splitlines()
    return Signed(signature, version, Path(loader)), ""


def write_measurement(
    build: Build, commit: str, enclave: Enclave, signed: Signed | None, reason: str
) -> list[Missing]:
    """Write the attestation beside the outputs of ``build``.

    Returns the measurement as missing if ``signed`` is None; ``reason`` then states the reason.
    """
    template = (build.tree / _TEMPLATE).read_text(encoding="utf-8")
    version = build.inputs.version
    subjects = [
        {"name": path.name, "digest": {"sha256": digest(path)}}
        for path in sorted(build.folder.iterdir())
        if _SUBJECTS.fullmatch(path.name)
    ]
    statement: dict[str, Any] = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": PREDICATE,
        "predicate": {
            "version": version,
            "buildTime": build.inputs.time,
            "commit": commit,
            "template": {
                "path": _TEMPLATE,
                "sha256": hashlib.sha256(template.encode()).hexdigest(),
            },
            "variables": enclave.variables,
            "settings": _settings(template),
            "gramine": None if signed is None else _gramine(signed),
            "enclave": None if signed is None else _identity(signed.signature),
        },
    }
    missing = []
    if signed is None:
        statement["predicate"]["enclaveMissing"] = reason
        missing.append(Missing("measurement (MRENCLAVE, MRSIGNER)", reason))
    target = build.folder / f"keyhouse-{version}.measurement.json"
    target.write_text(json.dumps(statement, indent=2) + "\n", encoding="utf-8")
    return missing


def _settings(template: str) -> dict[str, str]:
    """Return the settings ``sgx.*`` and ``loader.argv`` of the template."""
    found = dict(re.findall(r"(?m)^(sgx\.[a-z_]+) = ([^\[\n]+)$", template))
    arguments = re.search(r"(?ms)^loader\.argv = \[(.*?)^\]", template)
    if arguments is None:
        raise ValueError(f"{_TEMPLATE} has no loader.argv; correct tools/releasing/measurement.py")
    lines = (line.strip() for line in arguments[1].splitlines())
    text = " ".join(line for line in lines if line and not line.startswith("#"))
    return {"loader.argv": text, **found}


def _gramine(signed: Signed) -> dict[str, str]:
    """Return Gramine's version, with path and sum of the loader (the first measured code)."""
    return {
        "version": signed.gramine,
        "loader": str(signed.loader),
        "loaderSha256": digest(signed.loader),
    }


def _identity(signed: Path) -> dict[str, object]:
    """Return the identity in a SIGSTRUCT. Raises ``SigstructUnusableError``."""
    found = read_sigstruct(signed.read_bytes())
    return {
        "UniqueID": found.unique_id.hex(),
        "SignerID": found.signer_id.hex(),
        "ProductID": found.product_id,
        "SecurityVersion": found.security_version,
        "Debug": found.debug,
    }
