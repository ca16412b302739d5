"""Verify a coordinator first, then send calls to it.

The package ``keyhouse`` exports the names for most programs.
"""

from typing import TYPE_CHECKING

from keyhouse.base.lazy_imports import on_demand

if TYPE_CHECKING:
    from keyhouse.client.contexts import ContextUnusableError as ContextUnusableError
    from keyhouse.client.errors import (
        AnswerUnreadableError as AnswerUnreadableError,
        CallRefusedError as CallRefusedError,
        ClientSetupError as ClientSetupError,
        ServiceUnavailableError as ServiceUnavailableError,
        TrustError as TrustError,
        UnreachableError as UnreachableError,
    )
    from keyhouse.client.exchange import Keep as Keep
    from keyhouse.client.from_context import User as User
    from keyhouse.client.http.retries import (
        NO_RETRIES as NO_RETRIES,
        Retries as Retries,
        Timeouts as Timeouts,
    )
    from keyhouse.client.identity import (
        ClientIdentity as ClientIdentity,
        PemIdentity as PemIdentity,
        UserIdentity as UserIdentity,
        read_pem as read_pem,
        read_pkcs12 as read_pkcs12,
    )
    from keyhouse.client.line import CheckName as CheckName, TrustCheck as TrustCheck
    from keyhouse.client.log_policy import LogPolicy as LogPolicy
    from keyhouse.client.memory.file import (
        FileMemory as FileMemory,
        MemoryUnusableError as MemoryUnusableError,
    )
    from keyhouse.client.memory.states import (
        Memories as Memories,
        StateMemory as StateMemory,
        forgotten as forgotten,
    )
    from keyhouse.client.operations import CurrentManifest as CurrentManifest
    from keyhouse.client.public_log import LogCheckpoint as LogCheckpoint
    from keyhouse.client.recovery import (
        HolderKey as HolderKey,
        RecoveryKey as RecoveryKey,
        encrypt_share as encrypt_share,
        require_listed as require_listed,
        require_remembered as require_remembered,
        require_root as require_root,
        require_signed as require_signed,
    )
    from keyhouse.client.session import (
        AsyncCoordinator as AsyncCoordinator,
        Coordinator as Coordinator,
    )
    from keyhouse.client.tokens.identity import (
        TokenIdentity as TokenIdentity,
        read_token as read_token,
    )
    from keyhouse.client.tokens.key import TokenKey as TokenKey, open_token_key as open_token_key
    from keyhouse.client.trust import (
        CollateralFor as CollateralFor,
        Trust as Trust,
        TrustedCoordinator as TrustedCoordinator,
        parse_address as parse_address,
        verify_async as verify_async,
        verify_coordinator as verify_coordinator,
    )
    from keyhouse.wire.address import Address as Address
    from keyhouse.wire.client_api import (
        Activation as Activation,
        ActivationLimit as ActivationLimit,
        Activations as Activations,
        Counters as Counters,
        LivingWorkload as LivingWorkload,
        LogEntry as LogEntry,
        LogKeyData as LogKeyData,
        MarbleRoot as MarbleRoot,
        Offer as Offer,
        Pending as Pending,
        Progress as Progress,
        RefusedActivation as RefusedActivation,
        RefusedActivations as RefusedActivations,
        RevocationAnswer as RevocationAnswer,
        Revocations as Revocations,
        RevokedPlatform as RevokedPlatform,
        RevokedWorkload as RevokedWorkload,
        SecretObject as SecretObject,
        SignedQuote as SignedQuote,
        Status as Status,
        UpdateAnswer as UpdateAnswer,
        WorkloadCounters as WorkloadCounters,
        Workloads as Workloads,
    )
    from keyhouse.wire.headers import Place as Place
    from keyhouse.wire.plan import Plan as Plan, PlanChange as PlanChange, PlanData as PlanData
    from keyhouse.wire.ports import CLIENT_API_PORT
    from keyhouse.wire.secret_types import UserSecret

    DEFAULT_PORT = CLIENT_API_PORT
    SecretUpload = UserSecret
else:
    __getattr__, __dir__, __all__ = on_demand(
        __name__,
        {
            "keyhouse.client.contexts": "ContextUnusableError",
            "keyhouse.client.errors": (
                "AnswerUnreadableError CallRefusedError ClientSetupError "
                "ServiceUnavailableError TrustError UnreachableError"
            ),
            "keyhouse.client.exchange": "Keep",
            "keyhouse.client.from_context": "User",
            "keyhouse.client.http.retries": "NO_RETRIES Retries Timeouts",
            "keyhouse.client.identity": (
                "ClientIdentity PemIdentity UserIdentity read_pem read_pkcs12"
            ),
            "keyhouse.client.line": "CheckName TrustCheck",
            "keyhouse.client.log_policy": "LogPolicy",
            "keyhouse.client.memory.file": "FileMemory MemoryUnusableError",
            "keyhouse.client.memory.states": "Memories StateMemory forgotten",
            "keyhouse.client.operations": "CurrentManifest",
            "keyhouse.client.public_log": "LogCheckpoint",
            "keyhouse.client.recovery": (
                "HolderKey RecoveryKey encrypt_share require_listed "
                "require_remembered require_root require_signed"
            ),
            "keyhouse.client.session": "AsyncCoordinator Coordinator",
            "keyhouse.client.tokens.identity": "TokenIdentity read_token",
            "keyhouse.client.tokens.key": "TokenKey open_token_key",
            "keyhouse.client.trust": (
                "CollateralFor Trust TrustedCoordinator parse_address "
                "verify_async verify_coordinator"
            ),
            "keyhouse.wire.address": "DEFAULT_PORT:CLIENT_API_PORT Address",
            "keyhouse.wire.client_api": (
                "Activation ActivationLimit Activations Counters LivingWorkload LogEntry "
                "LogKeyData MarbleRoot Offer Pending Progress RefusedActivation "
                "RefusedActivations RevocationAnswer Revocations RevokedPlatform RevokedWorkload "
                "SecretObject SignedQuote Status UpdateAnswer WorkloadCounters Workloads"
            ),
            "keyhouse.wire.plan": "Plan PlanChange PlanData",
            "keyhouse.wire.secret_types": "SecretUpload:UserSecret",
            "keyhouse.wire.headers": "Place",
        },
    )
