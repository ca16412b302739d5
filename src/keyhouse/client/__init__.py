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
from keyhouse.client.memory import Memories, Place, StateMemory, forgotten
from keyhouse.client.memory_file import FileMemory, MemoryUnusable
from keyhouse.client.recovery import (
    HolderKey,
    Offer,
    Progress,
    encrypt_share,
    require_listed,
    require_remembered,
    require_root,
    require_signed,
)
from keyhouse.client.session import ClientIdentity, Coordinator, CurrentManifest, Keep, SecretUpload
from keyhouse.client.trust import CollateralFor, TrustedCoordinator, verify_coordinator

__all__ = [
    "DEFAULT_PORT",
    "Address",
    "AnswerUnreadable",
    "CallPutOff",
    "CallRefused",
    "ClientIdentity",
    "ClientSetup",
    "CollateralFor",
    "Coordinator",
    "CurrentManifest",
    "FileMemory",
    "HolderKey",
    "Keep",
    "LogEntry",
    "Memories",
    "MemoryUnusable",
    "Offer",
    "Pending",
    "Place",
    "Progress",
    "SecretObject",
    "SecretUpload",
    "StateMemory",
    "Status",
    "TrustFailed",
    "TrustedCoordinator",
    "Unreachable",
    "UpdateAnswer",
    "encrypt_share",
    "forgotten",
    "parse_address",
    "require_listed",
    "require_remembered",
    "require_root",
    "require_signed",
    "verify_coordinator",
]
