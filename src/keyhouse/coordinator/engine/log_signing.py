"""Make the key of the transparency log, and sign checkpoints with it.

The key is made together with the log, and the root key signs its public half.
"""

import hashlib
import re
from functools import lru_cache
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from keyhouse.authority import CoordinatorKeys, sign_log_key
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.commands import NewLogKey
from keyhouse.coordinator.core.events import LogBegun
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.publishing import manifest_object
from keyhouse.coordinator.core.state import PublicLog, Running
from keyhouse.coordinator.core.update_log import UpdateLogView
from keyhouse.manifest import Manifest
from keyhouse.transparency.keys import ED25519, VerifierKey, signature_of
from keyhouse.transparency.leaf import object_name
from keyhouse.transparency.note import Checkpoint, SignedNote

_NUMBERED: Final = r"(.+)/([2-9]|[1-9][0-9]{1,3})"


def make_log_key(keys: CoordinatorKeys, manifest: Manifest, *, after: str = "") -> NewLogKey:
    """Return a new key for the log of the deployment with ``keys``.

    ``after``: the origin of the former log; the new log has this origin with the next number.
    Empty: no former log. Then the new log has the origin in ``manifest``. If ``manifest`` has no
    origin, the origin is derived from the root certificate.
    """
    key = Ed25519PrivateKey.generate()
    given = manifest.config.transparency
    origin = given.origin if given is not None else ""
    origin = origin or f"keyhouse/{hashlib.sha256(keys.root_cert).hexdigest()[:32]}"
    origin = _numbered(after) if after else origin
    verifier = str(VerifierKey(origin, ED25519, key.public_key().public_bytes_raw()))
    return NewLogKey(Secret(key.private_bytes_raw()), verifier, sign_log_key(keys, verifier))


def _numbered(origin: str) -> str:
    """Return the origin for the next log: ``a/2`` after the origin ``a``, ``a/3`` after ``a/2``."""
    found = re.fullmatch(_NUMBERED, origin, re.DOTALL)
    return f"{found[1]}/{int(found[2]) + 1}" if found else f"{origin}/2"


class LateLog(msgspec.Struct, frozen=True):
    """A log that begins later than its deployment, or replaces a former log."""

    begun: LogBegun
    objects: list[bytes]  # the manifests, and the lines of the update log so far

    @classmethod
    def of(cls, state: Running, log: UpdateLogView, time: int) -> "LateLog":
        """Return the first event and the objects of a new transparency log for ``state``.

        ``log``: the present update log; its text becomes an object of the transparency log.
        ``time``: microseconds since 1970.
        """
        lines = b"\n".join(log.lines())
        pending = manifest_object(state.pending.manifest) if state.pending is not None else []
        after = "" if state.public_log is None else state.public_log.origin
        key = make_log_key(state.keys, policy_of(state.manifest).manifest, after=after)
        begun = key.begun(time, object_name(lines))
        return cls(begun, [lines, *manifest_object(state.manifest), *pending])


def signed_checkpoint(log: PublicLog) -> bytes:
    """Return the signed checkpoint of all leaves in ``log``. Equal logs give equal bytes."""
    text = Checkpoint(log.origin, log.frontier.size, log.frontier.root).encode()
    key, verifier = _parsed(log.key.reveal(), log.verifier)
    return SignedNote(text, (signature_of(key, verifier, text),)).encode()


@lru_cache(maxsize=4)
def _parsed(key: bytes, verifier: str) -> tuple[Ed25519PrivateKey, VerifierKey]:
    return Ed25519PrivateKey.from_private_bytes(key), VerifierKey.read(verifier)
