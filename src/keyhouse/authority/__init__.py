"""Keys, certificates, secrets and recovery shares: makes and reads them, knows no state."""

from keyhouse.authority.coordinator_keys import CoordinatorKeys
from keyhouse.authority.curve import Curve
from keyhouse.authority.derivation import derive_marble_key
from keyhouse.authority.recovery.ephemeral_key import EphemeralKey
from keyhouse.authority.recovery.index import (
    IndexDamagedError,
    IndexHolder,
    RecoveryIndex,
    SealedIndex,
    check_index_mac,
    index_of,
    read_recovery_index,
    recovery_index,
)
from keyhouse.authority.recovery.material import (
    RecoveryHolder,
    RecoveryMaterial,
    effective_threshold,
    make_recovery,
    recovery_key_problems,
)
from keyhouse.authority.recovery.shares import combine_shamir, combine_xor
from keyhouse.authority.recovery.submitted import (
    PLAIN_SIZES,
    ShareRefusedError,
    SubmittedShare,
    data_key,
    require_signed,
    require_signer,
    verify_share,
)
from keyhouse.authority.secrets.generate import generate, is_generated_with_manifest, trial
from keyhouse.authority.secrets.uploads import import_secret
from keyhouse.authority.signing import (
    is_signed_by_root,
    sign_ephemeral_key,
    sign_log_key,
    sign_manifest,
    sign_quote_text,
)
from keyhouse.authority.stored import StoredSecret
from keyhouse.authority.x509.ca import (
    LIFETIME,
    make_coordinator_keys,
    parse_names,
    renew_intermediate,
)
from keyhouse.authority.x509.marble_certificates import (
    MarbleIdentity,
    issue_marble_certificate,
    read_marble_certificate,
)
from keyhouse.authority.x509.signing_request import SigningRequest, read_signing_request
from keyhouse.authority.x509.validity import expiry

__all__ = [
    "LIFETIME",
    "PLAIN_SIZES",
    "CoordinatorKeys",
    "Curve",
    "EphemeralKey",
    "IndexDamagedError",
    "IndexHolder",
    "MarbleIdentity",
    "RecoveryHolder",
    "RecoveryIndex",
    "RecoveryMaterial",
    "SealedIndex",
    "ShareRefusedError",
    "SigningRequest",
    "StoredSecret",
    "SubmittedShare",
    "check_index_mac",
    "combine_shamir",
    "combine_xor",
    "data_key",
    "derive_marble_key",
    "effective_threshold",
    "expiry",
    "generate",
    "import_secret",
    "index_of",
    "is_generated_with_manifest",
    "is_signed_by_root",
    "issue_marble_certificate",
    "make_coordinator_keys",
    "make_recovery",
    "parse_names",
    "read_marble_certificate",
    "read_recovery_index",
    "read_signing_request",
    "recovery_index",
    "recovery_key_problems",
    "renew_intermediate",
    "require_signed",
    "require_signer",
    "sign_ephemeral_key",
    "sign_log_key",
    "sign_manifest",
    "sign_quote_text",
    "trial",
    "verify_share",
]
