"""The rules of packages are those of the manifest, with the versions that updates have raised."""

import json
from pathlib import Path

import msgspec
from support.samples.deployment import manifest, running_engine, set_manifest

from keyhouse.attestation.appraisal import PackageRules
from keyhouse.coordinator.activation import rules_of, rules_of_package
from keyhouse.coordinator.core.policy import policy_of

LIBRARY = {
    "SignerID": "CD" * 32,
    "ProductID": 0,
    "SecurityVersion": 3,
    "AcceptedTCBStatuses": ["OutOfDate"],
    "AcceptedAdvisories": ["INTEL-SA-00615"],
}


async def test_rules_in_force_have_every_field_and_the_raised_version(tmp_path: Path) -> None:
    content = json.loads(manifest())
    content["Packages"]["lib"] = LIBRARY
    async with running_engine(tmp_path / "state") as engine:
        state = (await set_manifest(engine, json.dumps(content).encode())).running

    library = PackageRules(
        signer_id="cd" * 32,
        product_id=0,
        security_version=3,
        accepted_tcb_statuses=("OutOfDate",),
        accepted_advisories=("INTEL-SA-00615",),
    )
    expected = {"app": PackageRules(unique_id="00" * 31 + "01"), "lib": library}
    assert {name: rules_of_package(state, name) for name in expected} == expected
    packages = policy_of(state.manifest).manifest.packages
    assert {name: rules_of(package) for name, package in packages.items()} == expected

    raised = msgspec.structs.replace(state, security_versions=state.security_versions.set("lib", 5))
    assert rules_of_package(raised, "lib") == msgspec.structs.replace(library, security_version=5)
    assert rules_of_package(raised, "app") == expected["app"]
