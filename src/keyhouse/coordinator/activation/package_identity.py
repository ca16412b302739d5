"""The requirements that the packages of a manifest set for workloads, as attestation rules."""

from keyhouse.attestation.appraisal import PackageRules
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import Running
from keyhouse.manifest import Manifest, Package


def rules_of_package(state: Running, name: str) -> PackageRules:
    """Return the rules of one package, with the SecurityVersion that updates have raised."""
    package = policy_of(state.manifest).manifest.packages[name]
    return _rules(package, state.security_versions.get(name, package.security_version))


def rules_of_manifest(manifest: Manifest) -> dict[str, PackageRules]:
    """Return the rules of each package as the manifest itself states them."""
    return {
        name: _rules(package, package.security_version)
        for name, package in manifest.packages.items()
    }


def _rules(package: Package, security_version: int | None) -> PackageRules:
    return PackageRules(
        debug=package.debug,
        unique_id=package.unique_id,
        signer_id=package.signer_id,
        product_id=package.product_id,
        security_version=security_version,
        accepted_tcb_statuses=package.accepted_tcb_statuses,
        accepted_advisories=package.accepted_advisories,
        vm=package.vm,
    )
