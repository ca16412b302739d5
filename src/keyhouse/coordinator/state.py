"""The trusted state: one frozen value, in one of three phases.

A phase holds only what it has: there is no "manifest or nothing". All of it is plain bytes and
values; parsed keys, permissions and encoded answers are caches derived from it (``policy``).
"""

import msgspec
from immutables import Map

from keyhouse.authority import CoordinatorKeys, RecoveryMaterial, StoredSecret

__all__ = ["AcceptingManifest", "Recovering", "Running", "State"]


class AcceptingManifest(msgspec.Struct, frozen=True):
    """Nothing is stored yet: the first manifest is awaited (state 2). Lives in memory only."""

    keys: CoordinatorKeys


class Recovering(msgspec.Struct, frozen=True):
    """There is a journal whose key cannot be unsealed (state 1). Lives in memory only."""

    keys: CoordinatorKeys  # temporary, replaced by the recovered ones
    reason: str  # why the key could not be unsealed, for people


class Running(msgspec.Struct, frozen=True):
    """A manifest is enforced (state 3)."""

    keys: CoordinatorKeys
    platform: str  # kind of platform, fixed for ever by the first manifest
    manifest: bytes  # exactly as uploaded: fingerprint and signature cover these bytes
    signature: bytes  # by the root key over ``manifest``, DER
    security_versions: Map[str, int]  # raised by package updates, over those of the manifest
    secrets: Map[str, StoredSecret]  # generated shared ones, and uploaded ones
    previous: Map[str, StoredSecret]  # values before the last update
    recovery: RecoveryMaterial
    time: int  # newest journalled time: microseconds since 1970, UTC
    instance: bytes  # random id of the process that serves this journal, so that forks diverge


State = AcceptingManifest | Recovering | Running
