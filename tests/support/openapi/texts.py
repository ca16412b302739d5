"""Describes each call of the Client API: purpose, body and answer, in addition to its route.

Every route has a row; a test requires this. The statuses of phase, caller, feature gate and
protocol are not repeated here.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from keyhouse.base.errors import (
    BadRequestError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidError,
    KeyhouseError,
    NotFoundError,
)
from keyhouse.wire import client_api as wire
from keyhouse.wire.plan import PlanData
from keyhouse.wire.secret_types import UserSecret


class RawManifest:
    """Stands for the bytes of a manifest, without encoding and without an envelope."""


class RawObject:
    """Represents an answer: a JSON object without an envelope."""


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """A call. ``data``: the data of a success. ``body``: the body of the request. None: empty."""

    summary: str
    body: Any = None
    # Whether the body may be empty.
    may_be_empty: bool = False
    data: Any = None
    # OpenAPI parameters without name and place.
    query: Mapping[str, Mapping[str, Any]] = {}
    # The media type of a success. Only JSON has an envelope.
    media: str = "application/json"
    # The meaning of the last part of the path.
    part: str = ""
    refused: tuple[type[KeyhouseError], ...] = ()


_CHANGE: Final = (BadRequestError, InvalidError)
_NONCE: Final = {
    "nonce": {
        "description": "Base64 in the URL alphabet, padding optional; at most 1,024 bytes decoded. "
        "The quote covers it.",
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]*={0,2}$", "maxLength": 1368},
    }
}
_LOG_NONCE: Final = {
    "nonce": {
        "description": "Base64 in the URL alphabet, padding optional; 16 to 1,024 bytes decoded.",
        "required": True,
        "schema": {
            "type": "string",
            "pattern": "^[A-Za-z0-9_-]*={0,2}$",
            "minLength": 22,
            "maxLength": 1368,
        },
    }
}
_NAMES: Final = {
    "s": {
        "description": "The name of a secret; repeated for each secret.",
        "required": True,
        "schema": {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
    }
}

_PLACE: Final = {
    "from": {
        "description": "The number of the first requested activation.",
        "schema": {"type": "integer", "minimum": 0},
    }
}

_NEWEST: Final = {
    "newest": {
        "description": "The checkpoint of the whole log, cosigned or not.",
        "schema": {"type": "boolean"},
    }
}

_ACKNOWLEDGE: Final = (*_CHANGE, ForbiddenError, NotFoundError, ConflictError)

_VERSION_2: Final[Mapping[tuple[str, str], Described]] = {
    ("GET", "/api/v2/openapi.json"): Described(
        summary="This description, without an envelope.", data=RawObject
    ),
    ("GET", "/api/v2/status"): Described(summary="The phase of the coordinator.", data=wire.Status),
    ("GET", "/api/v2/manifest"): Described(
        summary="The enforced manifest.", data=wire.ManifestData
    ),
    ("POST", "/api/v2/manifest"): Described(
        summary="Set the first manifest, or in recovery mode a new one.",
        body=wire.ManifestBody,
        data=wire.SetManifestData,
        refused=(*_CHANGE, ForbiddenError),
    ),
    ("GET", "/api/v2/quote"): Described(
        summary="Evidence: certificates, and a quote over the root certificate and a nonce.",
        data=wire.EvidenceData,
        query=_NONCE,
        refused=(BadRequestError,),
    ),
    ("GET", "/api/v2/secrets"): Described(
        summary="Secrets by name: all requested secrets, or none.",
        data=wire.SecretsData,
        query=_NAMES,
        refused=(BadRequestError, ForbiddenError),
    ),
    ("POST", "/api/v2/secrets"): Described(
        summary="Upload user-defined secrets: all or none.",
        body=wire.SecretsBody,
        refused=(*_CHANGE, ForbiddenError),
    ),
    ("GET", "/api/v2/update"): Described(summary="The update log.", data=wire.UpdateLogData),
    ("GET", "/api/v2/log/checkpoint"): Described(
        summary="The signed checkpoint of the transparency log (C2SP tlog-checkpoint); with "
        "witnesses the newest checkpoint with the cosignatures of a quorum.",
        media="text/plain",
        query=_NEWEST,
    ),
    ("GET", "/api/v2/log/key"): Described(
        summary="The key that signs checkpoints, and the root key's statement about it.",
        data=wire.LogKeyData,
    ),
    ("GET", "/api/v2/log/quote"): Described(
        summary="A checkpoint of the log, and a fresh quote over the checkpoint and the nonce.",
        data=wire.LogQuoteData,
        query=_LOG_NONCE,
        refused=(BadRequestError,),
    ),
    ("GET", "/api/v2/line"): Described(
        summary="All manifests ever in force under the root, and a fresh quote over them.",
        data=wire.LineData,
        query=_LOG_NONCE,
        refused=(BadRequestError, NotFoundError),
    ),
    ("GET", "/api/v2/log/tile/{tile}"): Described(
        summary="A tile of the log's tree, or a bundle of its entries (C2SP tlog-tiles).",
        media="application/octet-stream",
        part="A tile's path with its slashes, for example 0/x001/234.p/5 or entries/000.",
        refused=(NotFoundError,),
    ),
    ("GET", "/api/v2/log/object/{object}"): Described(
        summary="An object named by entries of the log, such as a manifest.",
        media="application/octet-stream",
        part="SHA-256 of the object.",
        refused=(NotFoundError,),
    ),
    ("POST", "/api/v2/plan"): Described(
        summary="Return the effects of an update, and a digest to bind the update to this plan. "
        "Nothing changes.",
        body=wire.ManifestBody,
        data=PlanData,
        refused=(*_CHANGE, ForbiddenError, ConflictError),
    ),
    ("POST", "/api/v2/update"): Described(
        summary="Raise security versions of packages, or initiate an update of the manifest.",
        body=wire.UpdateBody,
        data=wire.UpdateAnswer,
        refused=(*_CHANGE, ForbiddenError, ConflictError),
    ),
    ("GET", "/api/v2/update-manifest"): Described(
        summary="The pending update.",
        data=wire.Pending,
        refused=(NotFoundError,),
    ),
    ("POST", "/api/v2/update-manifest"): Described(
        summary="Acknowledge the pending update with the same manifest, byte by byte.",
        body=wire.UpdateBody,
        data=wire.AcknowledgedData,
        refused=_ACKNOWLEDGE,
    ),
    ("POST", "/api/v2/update-cancel"): Described(
        summary="Cancel the pending update.",
        body=wire.CancelBody,
        may_be_empty=True,
        data=wire.MessageData,
        refused=(BadRequestError, ForbiddenError, NotFoundError, ConflictError),
    ),
    ("GET", "/api/v2/recover/public-key"): Described(
        summary="The key to encrypt recovery secrets, while recovery lasts.",
        data=wire.Offer,
    ),
    ("POST", "/api/v2/recover"): Described(
        summary="Submit a recovery secret.",
        body=wire.RecoverBody,
        data=wire.Progress,
        refused=(*_CHANGE, ConflictError),
    ),
    ("GET", "/api/v2/recovery-secrets"): Described(
        summary="The encrypted recovery secrets of the present state.",
        data=wire.RecoverySecretsData,
        refused=(ForbiddenError,),
    ),
    ("POST", "/api/v2/sign-quote"): Described(
        summary="Verify a quote, and sign quote and TCB status with the root key. The quote is "
        "compared with no package.",
        body=wire.SignQuoteBody,
        data=wire.SignedQuote,
        refused=(BadRequestError,),
    ),
    ("POST", "/api/v2/monotonic-counter"): Described(
        summary="Raise a counter of the calling workload; return the former value.",
        body=wire.CounterBody,
        data=wire.CounterData,
        refused=(BadRequestError, ConflictError),
    ),
    ("GET", "/api/v2/activations"): Described(
        summary="A page of the audit trail of activations, oldest first; without a place the "
        "newest page.",
        data=wire.Activations,
        query=_PLACE,
        refused=(BadRequestError, ForbiddenError),
    ),
    ("GET", "/api/v2/refused-activations"): Described(
        summary="The refused activations since the start of the answering process, newest first; "
        "equal refusals are counted.",
        data=wire.RefusedActivations,
        refused=(ForbiddenError,),
    ),
    ("GET", "/api/v2/workloads"): Described(
        summary="A page of the workloads that renew their certificates, and the marble roots that "
        "workloads trust; without a place the first page.",
        data=wire.Workloads,
        query={
            "from": {
                "description": "The place of the page: `next` of the former page.",
                "schema": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
            }
        },
        refused=(BadRequestError, ForbiddenError),
    ),
    ("GET", "/api/v2/revocations"): Described(
        summary="The revoked workloads and platforms. The update log has the reasons.",
        data=wire.Revocations,
        refused=(ForbiddenError,),
    ),
    ("POST", "/api/v2/revocations"): Described(
        summary="Revoke a workload, a marble type or a platform. The coordinator refuses its "
        "certificates at once; other workloads accept them until they end.",
        body=wire.RevocationBody,
        data=wire.RevocationAnswer,
        refused=(BadRequestError, ForbiddenError, NotFoundError, ConflictError),
    ),
    ("GET", "/api/v2/counters"): Described(
        summary="The activations used of each limit, and the monotonic counters of the workloads "
        "in a page of the audit trail; without a place the newest page.",
        data=wire.Counters,
        query=_PLACE,
        refused=(BadRequestError, ForbiddenError),
    ),
}

_VERSION_1: Final[Mapping[tuple[str, str], Mapping[str, Any]]] = {
    ("GET", "/status"): {"data": wire.OldStatusData},
    ("GET", "/manifest"): {
        "summary": "The enforced manifest, or nothing.",
        "data": wire.OldManifestData,
    },
    ("POST", "/manifest"): {
        "summary": "Set the first manifest, or in recovery mode a new one. Without recovery keys "
        "the data is null.",
        "body": RawManifest,
        "data": wire.OldSetManifestData | None,
    },
    ("GET", "/quote"): {
        "summary": "Evidence: certificates, and a quote over the root certificate.",
        "query": {},
        "refused": (),
    },
    ("GET", "/secrets"): {"data": dict[str, wire.SecretObject]},
    ("POST", "/secrets"): {"body": dict[str, UserSecret]},
    ("GET", "/update"): {
        "summary": "The update log, as a text with a JSON array of objects.",
        "data": str,
    },
    ("POST", "/update"): {"body": RawManifest},
    ("GET", "/update-manifest"): {},
    ("POST", "/update-manifest"): {"body": RawManifest},
    ("POST", "/update-cancel"): {"data": str},
    ("POST", "/recover"): {
        "summary": "Moved to /api/v2/recover.",
        "body": None,
        "data": None,
        "refused": (GoneError,),
    },
}
"""Differences between version 1 and version 2."""

DESCRIPTIONS: Final[Mapping[tuple[str, str], Described]] = {
    **_VERSION_2,
    **{
        (method, path): msgspec.structs.replace(_VERSION_2[method, f"/api/v2{path}"], **differing)
        for (method, path), differing in _VERSION_1.items()
    },
}
