"""Verify a coordinator first, then talk to it."""

from keyhouse.client.errors import (
    AnswerUnreadableError,
    CallRefusedError,
    ClientSetupError,
    ServiceUnavailableError,
    TrustError,
    UnreachableError,
)
from keyhouse.client.exchange import Keep
from keyhouse.client.http.retries import NO_RETRIES, Retries, Timeouts
from keyhouse.client.identity import (
    ClientIdentity,
    PemIdentity,
    UserIdentity,
    read_pem,
    read_pkcs12,
)
from keyhouse.client.memory.file import FileMemory, MemoryUnusableError
from keyhouse.client.memory.states import Memories, Place, StateMemory, forgotten
from keyhouse.client.operations import CurrentManifest
from keyhouse.client.recovery import (
    HolderKey,
    RecoveryKey,
    encrypt_share,
    require_listed,
    require_remembered,
    require_root,
    require_signed,
)
from keyhouse.client.session import AsyncCoordinator, Coordinator, User
from keyhouse.client.tokens.identity import TokenIdentity, read_token
from keyhouse.client.tokens.key import TokenKey, open_token_key
from keyhouse.client.trust import (
    CollateralFor,
    Trust,
    TrustedCoordinator,
    parse_address,
    verify_async,
    verify_coordinator,
)
from keyhouse.wire.address import CLIENT_API_PORT as DEFAULT_PORT
from keyhouse.wire.address import Address
from keyhouse.wire.client_api import (
    Activation,
    Activations,
    LogEntry,
    Offer,
    Pending,
    Progress,
    SecretObject,
    SignedQuote,
    Status,
    UpdateAnswer,
)
from keyhouse.wire.plan import Plan, PlanChange, PlanData
from keyhouse.wire.secret_types import UserSecret as SecretUpload

__all__ = [
    "DEFAULT_PORT",
    "NO_RETRIES",
    "Activation",
    "Activations",
    "Address",
    "AnswerUnreadableError",
    "AsyncCoordinator",
    "CallRefusedError",
    "ClientIdentity",
    "ClientSetupError",
    "CollateralFor",
    "Coordinator",
    "CurrentManifest",
    "FileMemory",
    "HolderKey",
    "Keep",
    "LogEntry",
    "Memories",
    "MemoryUnusableError",
    "Offer",
    "PemIdentity",
    "Pending",
    "Place",
    "Plan",
    "PlanChange",
    "PlanData",
    "Progress",
    "RecoveryKey",
    "Retries",
    "SecretObject",
    "SecretUpload",
    "ServiceUnavailableError",
    "SignedQuote",
    "StateMemory",
    "Status",
    "Timeouts",
    "TokenIdentity",
    "TokenKey",
    "Trust",
    "TrustError",
    "TrustedCoordinator",
    "UnreachableError",
    "UpdateAnswer",
    "User",
    "UserIdentity",
    "encrypt_share",
    "forgotten",
    "open_token_key",
    "parse_address",
    "read_pem",
    "read_pkcs12",
    "read_token",
    "require_listed",
    "require_remembered",
    "require_root",
    "require_signed",
    "verify_async",
    "verify_coordinator",
]
