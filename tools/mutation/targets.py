"""The modules that are changed, and the tests that should notice: quick ones in one process.

Programs that tests start hold no mutant: tests of real processes are of no use here.
"""

from typing import Final

__all__ = ["TARGETS"]

TARGETS: Final[dict[str, tuple[str, ...]]] = {
    "manifest/permissions": ("manifest/test_permissions",),
    "manifest/rules/packages": (
        "manifest/test_confidential_vm_rules",
        "manifest/test_snp_rules",
    ),
    **dict.fromkeys(
        (
            "evidence/agreement",
            "evidence/continuation",
            "evidence/hardware",
            "evidence/history",
            "evidence/members",
            "evidence/milestones",
            "evidence/verify",
        ),
        (
            "evidence/test_history",
            "evidence/test_members",
            "evidence/test_agreement",
            "evidence/test_checkpoints",
            "evidence/test_continuation",
            "evidence/test_verify",
            "evidence/test_corpus",
            "evidence/test_forgeries",
        ),
    ),
    "evidence/bundle": ("evidence/test_bundle", "evidence/test_verify"),
    "evidence/collect": ("evidence/test_collect",),
    "wire/snp": ("attestation/test_snp_packages", "manifest/test_snp_rules"),
    "wire/tdx": ("attestation/test_confidential_vms", "manifest/test_confidential_vm_rules"),
    "base/client_keys": ("base/test_client_keys",),
    "coordinator/core/decide": (
        "coordinator/core/test_stale",
        "coordinator/core/test_collateral_seen",
        "coordinator/core/test_phases",
        "coordinator/test_prepared_again",
        "coordinator/engine/test_first_manifest_rule",
        "coordinator/update/test_package_update",
        "coordinator/core/test_counters",
    ),
    "coordinator/core/decide_update": (
        "coordinator/core/test_stale",
        "coordinator/update/test_full_update",
    ),
    "coordinator/core/phases": ("coordinator/core/test_phases",),
    "attestation/appraisal": (
        "attestation/test_appraisal",
        "attestation/test_confidential_vms",
        "attestation/test_expected_identity",
        "attestation/test_snp_packages",
    ),
    "attestation/quote/snp": ("attestation/test_snp_packages", "attestation/test_snp_reports"),
    "attestation/quote/snp_form": ("attestation/test_snp_reports",),
    "attestation/snp/authority": ("attestation/test_snp_reports",),
    "attestation/snp/verify": ("attestation/test_snp_reports",),
    "attestation/quote/td": ("attestation/test_confidential_vms",),
    "coordinator/engine/recover": (
        "coordinator/engine/test_recovery_check",
        "coordinator/engine/test_recovery_steps",
        "server/services/test_recovery_session",
    ),
    "journal/directory/acquire": ("journal/test_lock", "journal/test_home"),
    "journal/store/sqlite_file": ("journal/test_sqlite", "journal/test_stores"),
    "server/http/head": ("server/http/test_http_request",),
    "server/http/chunks": ("server/http/test_http_chunks",),
    "server/net/tls": (
        "server/net/test_tls_flow",
        "server/net/test_tls_transport",
        "server/net/test_tls_identity",
    ),
    "server/net/tls_transport": ("server/net/test_tls_flow", "server/net/test_tls_transport"),
    "authority/recovery/index": ("authority/test_recovery_index_file",),
    "authority/recovery/shares": (
        "authority/test_recovery_material",
        "authority/test_secret_sharing",
    ),
    "authority/recovery/submitted": ("authority/test_submitted_shares",),
    "client/recovery": ("client/test_offers",),
}
