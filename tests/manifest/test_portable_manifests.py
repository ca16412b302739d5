"""`keyhouse manifest check --portable` names the keys that only Keyhouse has."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.process.command import run
from support.samples.snp_vms import SNP

from keyhouse.manifest import document, model
from keyhouse.manifest.source.portable import CONFIG, KINDS_OF_VMS
from keyhouse.wire.package import Package

ENCLAVE = {"SignerID": "ab" * 32, "ProductID": 7, "SecurityVersion": 2}

ONLY_HERE: dict[str, dict[str, Any]] = {
    "Packages.vm.TDX": {"Packages": {"vm": {"TDX": {"MRTD": "ab" * 48}}}},
    "Packages.vm.SNP": {"Packages": {"vm": {"SNP": SNP}}},
    "Marbles.web.Renewal": {"Marbles": {"web": {"Package": "app", "Renewal": {}}}},
    "Roles.guard.ResourceType": {
        "Roles": {
            "guard": {
                "ResourceType": "Marbles",
                "ResourceNames": ["web"],
                "Actions": ["RevokeWorkload"],
            }
        }
    },
    "Config.Replicas": {"Config": {"Replicas": {}}},
    "Config.Transparency": {"Config": {"Transparency": {}}},
    "Config.Trust": {"Config": {"Trust": {"OverlapHours": 0}}},
}

# The keys of the interface, by the object in the manifest.
INTERFACE: dict[type[msgspec.Struct], set[str]] = {
    document.ManifestDocument: {
        *("Packages", "Infrastructures", "Marbles", "Secrets", "Users", "Roles", "RecoveryKeys"),
        *("TLS", "Config"),
    },
    Package: {
        *("Debug", "UniqueID", "SignerID", "ProductID", "SecurityVersion"),
        *("AcceptedTCBStatuses", "AcceptedAdvisories"),
    },
    model.Infrastructure: {"CPUSVN", "QESVN", "PCESVN", "RootCA"},
    document.MarbleDocument: {
        *("Package", "MaxActivations", "Parameters", "TLS", "DisableSecretBinding"),
    },
    document.ParametersDocument: {"Files", "Env", "Argv"},
    document.EntryDocument: {"Data", "Encoding", "NoTemplates"},
    document.SecretDocument: {
        *("Type", "Size", "Shared", "UserDefined", "Cert", "ValidFor", "Private", "Public"),
    },
    document.UserDocument: {"Certificate", "Roles"},
    document.RoleDocument: {"ResourceType", "ResourceNames", "Actions"},
    model.TlsTag: {"Incoming", "Outgoing"},
    model.Incoming: {"Port", "Cert", "DisableClientAuth", "Addr"},
    model.Outgoing: {"Port", "Cert", "DisableClientAuth", "Addr"},
    document.ConfigDocument: {
        *("SealMode", "FeatureGates", "UpdateThreshold", "RecoveryThreshold", "RotateRootSecret"),
    },
}


def written(folder: Path, changes: dict[str, Any]) -> str:
    """Write a manifest of the interface, with ``changes``. Return its name."""
    raw: dict[str, Any] = {"Packages": {"app": ENCLAVE}, "Marbles": {"web": {"Package": "app"}}}
    for section, values in changes.items():
        raw[section] = {**raw.get(section, {}), **values}
    (folder / "m.json").write_text(json.dumps(raw, indent=1))
    return "m.json"


@pytest.mark.parametrize("key", ONLY_HERE)
def test_each_key_that_only_keyhouse_has_is_named(key: str, tmp_path: Path) -> None:
    file = written(tmp_path, ONLY_HERE[key])
    ended = run("manifest", "check", "--portable", file, folder=tmp_path)
    assert ended.code == 1
    errors = [line for line in ended.err.splitlines() if ": error: " in line]
    assert len(errors) == 1, ended.err
    assert f"error: {key}: " in errors[0]
    assert " other coordinators" in errors[0]
    assert ended.out.startswith("valid, not portable  ")
    assert run("manifest", "check", file, folder=tmp_path).code == 0
    found = json.loads(run("manifest", "check", "--portable", "--json", file, folder=tmp_path).out)
    assert found["valid"]
    assert [each["at"] for each in found["unportable"]] == [key]


def test_a_manifest_of_the_interface_is_portable(tmp_path: Path) -> None:
    file = written(tmp_path, {"Config": {"Trust": None}})
    ended = run("manifest", "check", "--portable", file, folder=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("valid  ")


def test_the_page_of_the_manifest_lists_the_same_keys() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "manifest.md"
    section = page.read_text().partition("## Portable manifests")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    named = {word for row in rows for word in re.findall(r"`([^`]+)`", row)}
    keys = {*KINDS_OF_VMS, *(f"Config.{key}" for key in CONFIG)}
    sections = {"Packages", "Roles", "ResourceType"}
    assert named - sections == keys | {"Marbles.<type>.Renewal", "Marbles"}


def test_each_key_is_of_the_interface_or_in_the_list() -> None:
    """A new key of the manifest needs a row: in the interface, or in the check."""
    own = {
        Package: set(KINDS_OF_VMS),
        document.MarbleDocument: {"Renewal"},
        document.ConfigDocument: set(CONFIG),
    }
    for kind, keys in INTERFACE.items():
        assert set(kind.__struct_encode_fields__) == keys | own.get(kind, set()), kind
    assert set(model.ResourceType) == {"Packages", "Secrets", "Manifest", "Marbles"}
    assert set(model.FeatureGate) == {"SignQuoteEndpoint", "MonotonicCounter", "AzureHSMSealing"}
