"""Metrics of the expiry of users' and secrets' certificates. Each certificate is read once.

The expiry of a certificate never changes, so its line in the text of the metrics is written once.
The names of users and secrets come from the manifest.
"""

import asyncio
from functools import lru_cache
from typing import Final

from keyhouse.authority import StoredSecret, expiry
from keyhouse.coordinator import Running, State, policy_of, user_expiry
from keyhouse.server.metrics.families import labelled, lines_of

SLICE: Final = 32
"""Certificates that are read without a pause: each needs about 40 us."""

_USERS: Final = "keyhouse_user_certificate_expiry_seconds"
_SECRETS: Final = "keyhouse_secret_certificate_expiry_seconds"


class CertificateMetrics:
    """The lines of text about certificates, stored since the last scrape."""

    def __init__(self) -> None:
        self._manifest = b""
        self._users = b""
        self._lines: dict[str, tuple[StoredSecret, bytes]] = {}
        self._state: State | None = None
        self._text = b""

    async def text(self, state: State) -> bytes:
        """Return the metrics of the certificates' expiry for ``state``. Calls must not overlap."""
        if state is not self._state:
            manifest = state.manifest if isinstance(state, Running) else b""
            if manifest != self._manifest:
                self._users = await _user_lines(manifest)
                self._manifest = manifest
            secrets = await self._secret_lines(state) if isinstance(state, Running) else b""
            self._text = _head(_USERS) + self._users + _head(_SECRETS) + secrets
            self._state = state
        return self._text

    async def _secret_lines(self, state: Running) -> bytes:
        known, lines = self._lines, {}
        read = 0
        for name in _certificate_names(state.manifest):
            secret = state.secrets.get(name)
            if secret is None or not secret.cert:
                continue
            line = known.get(name)
            if line is None or line[0] is not secret:
                line = (secret, _line(_SECRETS, name, expiry(secret.cert)))
                read += 1
                if read % SLICE == 0:
                    await asyncio.sleep(0)
            lines[name] = line
        self._lines = lines
        return b"".join(line for _, line in lines.values())


@lru_cache(maxsize=2)
def _certificate_names(manifest: bytes) -> tuple[str, ...]:
    definitions = policy_of(manifest).manifest.secrets
    return tuple(name for name, one in sorted(definitions.items()) if one.type.is_certificate)


async def _user_lines(manifest: bytes) -> bytes:
    if not manifest:
        return b""
    lines = []
    for number, (name, end) in enumerate((await asyncio.to_thread(user_expiry, manifest)).items()):
        lines.append(_line(_USERS, name, end))
        if number % SLICE == 0:
            await asyncio.sleep(0)
    return b"".join(lines)


def _line(metric: str, name: str, end: int | None) -> bytes:
    return b"" if end is None else lines_of(labelled(metric, [((name,), end)]))[1]


def _head(metric: str) -> bytes:
    return lines_of(labelled(metric, []))[0]
