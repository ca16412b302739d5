"""Verify a coordinator first, then talk to it."""

from keyhouse.client.address import DEFAULT_PORT, Address, parse_address
from keyhouse.client.answers import LogEntry, Pending, SecretObject, Status, UpdateAnswer
from keyhouse.client.errors import (
    AnswerUnreadable,
    CallPutOff,
    CallRefused,
    ClientSetup,
    TrustFailed,
    Unreachable,
)
from keyhouse.client.recovery import (
    HolderKey,
    Offer,
    Progress,
    encrypt_share,
    require_listed,
    require_root,
    require_signed,
)
from keyhouse.client.session import ClientIdentity, Coordinator, CurrentManifest, SecretUpload
from keyhouse.client.trust import TrustedCoordinator, verify_coordinator

__all__ = [
    "DEFAULT_PORT",
    "Address",
    "AnswerUnreadable",
    "CallPutOff",
    "CallRefused",
    "ClientIdentity",
    "ClientSetup",
    "Coordinator",
    "CurrentManifest",
    "HolderKey",
    "LogEntry",
    "Offer",
    "Pending",
    "Progress",
    "SecretObject",
    "SecretUpload",
    "Status",
    "TrustFailed",
    "TrustedCoordinator",
    "Unreachable",
    "UpdateAnswer",
    "encrypt_share",
    "parse_address",
    "require_listed",
    "require_root",
    "require_signed",
    "verify_coordinator",
]
