"""Verify a coordinator first, then talk to it.

``keyhouse`` offers what most programs need of it.
"""

from typing import TYPE_CHECKING

from keyhouse.base.on_demand import on_demand

if TYPE_CHECKING:
    from keyhouse.client.contexts import ContextUnusableError as ContextUnusableError
    from keyhouse.client.errors import (
        AnswerUnreadableError as AnswerUnreadableError,
    )
    from keyhouse.client.errors import (
        CallRefusedError as CallRefusedError,
    )
    from keyhouse.client.errors import (
        ClientSetupError as ClientSetupError,
    )
    from keyhouse.client.errors import (
        ServiceUnavailableError as ServiceUnavailableError,
    )
    from keyhouse.client.errors import (
        TrustError as TrustError,
    )
    from keyhouse.client.errors import (
        UnreachableError as UnreachableError,
    )
    from keyhouse.client.exchange import (
        Keep as Keep,
    )
    from keyhouse.client.from_context import User as User
    from keyhouse.client.http.retries import (
        NO_RETRIES as NO_RETRIES,
    )
    from keyhouse.client.http.retries import (
        Retries as Retries,
    )
    from keyhouse.client.http.retries import (
        Timeouts as Timeouts,
    )
    from keyhouse.client.identity import (
        ClientIdentity as ClientIdentity,
    )
    from keyhouse.client.identity import (
        PemIdentity as PemIdentity,
    )
    from keyhouse.client.identity import (
        UserIdentity as UserIdentity,
    )
    from keyhouse.client.identity import (
        read_pem as read_pem,
    )
    from keyhouse.client.identity import (
        read_pkcs12 as read_pkcs12,
    )
    from keyhouse.client.memory.file import (
        FileMemory as FileMemory,
    )
    from keyhouse.client.memory.file import (
        MemoryUnusableError as MemoryUnusableError,
    )
    from keyhouse.client.memory.states import (
        Memories as Memories,
    )
    from keyhouse.client.memory.states import (
        Place as Place,
    )
    from keyhouse.client.memory.states import (
        StateMemory as StateMemory,
    )
    from keyhouse.client.memory.states import (
        forgotten as forgotten,
    )
    from keyhouse.client.operations import (
        CurrentManifest as CurrentManifest,
    )
    from keyhouse.client.recovery import (
        HolderKey as HolderKey,
    )
    from keyhouse.client.recovery import (
        RecoveryKey as RecoveryKey,
    )
    from keyhouse.client.recovery import (
        encrypt_share as encrypt_share,
    )
    from keyhouse.client.recovery import (
        require_listed as require_listed,
    )
    from keyhouse.client.recovery import (
        require_remembered as require_remembered,
    )
    from keyhouse.client.recovery import (
        require_root as require_root,
    )
    from keyhouse.client.recovery import (
        require_signed as require_signed,
    )
    from keyhouse.client.session import (
        AsyncCoordinator as AsyncCoordinator,
    )
    from keyhouse.client.session import (
        Coordinator as Coordinator,
    )
    from keyhouse.client.tokens.identity import (
        TokenIdentity as TokenIdentity,
    )
    from keyhouse.client.tokens.identity import (
        read_token as read_token,
    )
    from keyhouse.client.tokens.key import (
        TokenKey as TokenKey,
    )
    from keyhouse.client.tokens.key import (
        open_token_key as open_token_key,
    )
    from keyhouse.client.trust import (
        CollateralFor as CollateralFor,
    )
    from keyhouse.client.trust import (
        Trust as Trust,
    )
    from keyhouse.client.trust import (
        TrustedCoordinator as TrustedCoordinator,
    )
    from keyhouse.client.trust import (
        parse_address as parse_address,
    )
    from keyhouse.client.trust import (
        verify_async as verify_async,
    )
    from keyhouse.client.trust import (
        verify_coordinator as verify_coordinator,
    )
    from keyhouse.wire.address import (
        CLIENT_API_PORT,
    )
    from keyhouse.wire.address import (
        Address as Address,
    )
    from keyhouse.wire.client_api import (
        Activation as Activation,
    )
    from keyhouse.wire.client_api import (
        ActivationLimit as ActivationLimit,
    )
    from keyhouse.wire.client_api import (
        Activations as Activations,
    )
    from keyhouse.wire.client_api import (
        Counters as Counters,
    )
    from keyhouse.wire.client_api import (
        LogEntry as LogEntry,
    )
    from keyhouse.wire.client_api import (
        Offer as Offer,
    )
    from keyhouse.wire.client_api import (
        Pending as Pending,
    )
    from keyhouse.wire.client_api import (
        Progress as Progress,
    )
    from keyhouse.wire.client_api import (
        SecretObject as SecretObject,
    )
    from keyhouse.wire.client_api import (
        SignedQuote as SignedQuote,
    )
    from keyhouse.wire.client_api import (
        Status as Status,
    )
    from keyhouse.wire.client_api import (
        UpdateAnswer as UpdateAnswer,
    )
    from keyhouse.wire.client_api import (
        WorkloadCounters as WorkloadCounters,
    )
    from keyhouse.wire.plan import (
        Plan as Plan,
    )
    from keyhouse.wire.plan import (
        PlanChange as PlanChange,
    )
    from keyhouse.wire.plan import (
        PlanData as PlanData,
    )
    from keyhouse.wire.secret_types import (
        UserSecret,
    )

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
            "keyhouse.client.memory.file": "FileMemory MemoryUnusableError",
            "keyhouse.client.memory.states": "Memories Place StateMemory forgotten",
            "keyhouse.client.operations": "CurrentManifest",
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
                "Activation ActivationLimit Activations Counters LogEntry Offer Pending "
                "Progress SecretObject SignedQuote Status UpdateAnswer WorkloadCounters"
            ),
            "keyhouse.wire.plan": "Plan PlanChange PlanData",
            "keyhouse.wire.secret_types": "SecretUpload:UserSecret",
        },
    )
