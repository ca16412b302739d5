"""Makes and reads keys, certificates, secrets and recovery shares. Holds no state of its own."""

from typing import TYPE_CHECKING

from keyhouse.authority.derivation import derive_digest_key, derive_marble_key
from keyhouse.authority.keys import (
    CoordinatorKeys,
    Curve,
    StoredSecret,
    is_signed_by_root,
    sign_ephemeral_key,
    sign_log_key,
    sign_manifest,
    sign_quote_text,
)
from keyhouse.authority.recovery.index import (
    IndexDamagedError,
    RecoveryIndex,
    check_index_mac,
    index_of,
    read_recovery_index,
    recovery_index,
)
from keyhouse.authority.recovery.shares import RecoveryMaterial, effective_threshold, make_recovery
from keyhouse.authority.recovery.submitted import (
    PLAIN_SIZES,
    EphemeralKey,
    SubmittedShare,
    data_key,
    require_signed,
    require_signer,
    verify_share,
)
from keyhouse.authority.x509.ca import (
    LIFETIME,
    make_coordinator_keys,
    parse_names,
    renew_intermediate,
)
from keyhouse.authority.x509.fields import expiry
from keyhouse.authority.x509.marble_certificates import (
    ClaimedLineage,
    MarbleIdentity,
    MarbleLeaf,
    certify_marble,
    issue_marble_certificate,
    key_hash,
    read_claimed_lineage,
    read_marble_certificate,
)
from keyhouse.authority.x509.signing_request import (
    SigningRequest,
    read_signing_request,
    requested_key,
)
from keyhouse.base.lazy_imports import on_demand

# Imported when a secret is made or a manifest is checked, because a start needs neither.
if TYPE_CHECKING:
    from keyhouse.authority.secrets import (
        generate,
        import_secret,
        is_generated_with_manifest,
        trial,
    )
else:
    __getattr__, __dir__, __all__ = on_demand(
        __name__,
        {"keyhouse.authority.secrets": "generate import_secret is_generated_with_manifest trial"},
    )
