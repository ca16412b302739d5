"""The requirements of packages: the manifest's fields, with versions raised by updates."""

import json
from pathlib import Path

import msgspec
from support.samples.deployment import manifest, running_engine, set_manifest

from keyhouse.coordinator.activation import package_in_force
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.manifest import Package

LIBRARY = {
    "SignerID": "CD" * 32,
    "ProductID": 0,
    "SecurityVersion": 3,
    "AcceptedTCBStatuses": ["OutOfDate"],
    "AcceptedAdvisories": ["INTEL-SA-00615"],
}


async def test_packages_in_force_have_every_field_and_the_raised_version(tmp_path: Path) -> None:
    content = json.loads(manifest())
    content["Packages"]["lib"] = LIBRARY
    async with running_engine(tmp_path / "state") as engine:
        state = (await set_manifest(engine, json.dumps(content).encode())).running

    library = Package(
        signer_id="cd" * 32,
        product_id=0,
        security_version=3,
        accepted_tcb_statuses=("OutOfDate",),
        accepted_advisories=("INTEL-SA-00615",),
    )
    expected = {"app": Package(unique_id="00" * 31 + "01"), "lib": library}
    assert {name: package_in_force(state, name) for name in expected} == expected
    assert policy_of(state.manifest).manifest.packages == expected

    raised = msgspec.structs.replace(state, security_versions=state.security_versions.set("lib", 5))
    assert package_in_force(raised, "lib") == msgspec.structs.replace(library, security_version=5)
    assert package_in_force(raised, "app") == expected["app"]
