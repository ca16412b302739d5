"""Write the measurement of the enclave as an attestation (in-toto Statement v1).

The subjects are the runtime, the wheels in the enclave and the template of its manifest. The
predicate has the identity in the signed enclave (SIGSTRUCT) and the measured settings. Without a
signed enclave, the predicate states the reason, and the identity is null.
"""

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any, Final, NamedTuple

from keyhouse.cli.attest.package_info import read_sigstruct
from keyhouse.cli.release.sums import digest
from releasing.build import Build, Missing

PREDICATE: Final = "urn:keyhouse:measurement:v1"

_SCRIPT: Final = Path(__file__).with_name("enclave.sh")
_TEMPLATE: Final = "deploy/gramine/keyhouse.manifest.template"
_TOOLS: Final = ("gramine-manifest", "gramine-sgx-sign")


class Enclave(NamedTuple):
    """The inputs of the signing of an enclave: the vendor's RSA key, and the security version."""

    key: Path | None
    security_version: int


def sign_enclave(build: Build, runtime: Path | None, enclave: Enclave) -> tuple[Path | None, str]:
    """Return the signed enclave of ``runtime``, or None and the reason of its absence."""
    absent = [tool for tool in _TOOLS if not shutil.which(tool)]
    if absent:
        return None, f"not installed, of Gramine: {', '.join(absent)}"
    if runtime is None:
        return None, "there is no runtime to measure"
    if enclave.key is None:
        return None, "--enclave-key names no signing key"
    place = build.folder.parent / "enclave"
    words = ["sh", _SCRIPT, runtime, place, build.folder.parent / "opt-enclave"]
    build.around.run(
        ["unshare", "--user", "--mount", "--map-root-user", *words],
        build.tree,
        ENCLAVE_KEY=str(enclave.key.resolve()),
        ISV_SVN=str(enclave.security_version),
    )
    return place / "keyhouse.sig", ""


def write_measurement(build: Build, commit: str, signed: Path | None, reason: str) -> list[Missing]:
    """Write the attestation beside the outputs of ``build``; return the measurement if missing."""
    template = (build.tree / _TEMPLATE).read_text(encoding="utf-8")
    version = build.inputs.version
    subjects = [
        {"name": path.name, "digest": {"sha256": digest(path)}}
        for path in sorted(build.folder.iterdir())
        if re.match(r"keyhouse_(base|coordinator)-.*\.whl$|.*-gramine-runtime", path.name)
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
            "settings": _settings(template),
            "enclave": None if signed is None else _identity(signed),
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
    """Return the lines of the template that set an option of SGX, and ``loader.argv``."""
    found = dict(re.findall(r"(?m)^(sgx\.[a-z_]+) = ([^\[\n]+)$", template))
    arguments = re.search(r"(?ms)^loader\.argv = \[(.*?)^\]", template)
    if arguments is None:
        raise ValueError(f"{_TEMPLATE} has no loader.argv; correct tools/releasing/measurement.py")
    lines = (line.strip() for line in arguments[1].splitlines())
    text = " ".join(line for line in lines if line and not line.startswith("#"))
    return {"loader.argv": text, **found}


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
