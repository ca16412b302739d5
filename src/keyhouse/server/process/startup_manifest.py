"""The manifest that a coordinator sets by itself at its start, if none is set.

There is no client to answer its recovery secrets to, so they are written to a file. They are
encrypted for the holders of the keys, and the state keeps them: they are written from there, before
anything is served, and again at a later start if a crash came between.
"""

import asyncio
import os
import shlex
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from keyhouse import manifest as manifests
from keyhouse.base.durable_files import replace_file
from keyhouse.base.errors import BrokenError, InvalidError, Problem, RefusedError
from keyhouse.base.log import log
from keyhouse.base.printable import os_reason
from keyhouse.coordinator import AcceptingManifest, Engine, Recovering, Running
from keyhouse.manifest import fingerprint
from keyhouse.server.services.first_manifest import FirstManifest
from keyhouse.server.services.preparation import Preparation
from keyhouse.wire.client_api import SetManifestData

LARGEST: Final = 16 * 1024 * 1024
"""Bytes of a manifest, as for one that is sent."""

_FLAG: Final = "--startup-manifest"
_YAML: Final = frozenset({".yaml", ".yml"})
_FILE_FLAG: Final = "--startup-recovery-file"


class StartupRefusedError(RefusedError):
    """The startup manifest, or the file for its recovery secrets, cannot be used."""

    code = "startup-manifest"


class StartupInvalidError(InvalidError):
    """The startup manifest breaks the rules of manifests."""

    def __init__(self, file: Path, problems: Sequence[Problem]) -> None:
        super().__init__(str(file), problems)
        self.hint = f"to see the lines: keyhouse manifest check {shlex.quote(str(file))}"


def read_startup_manifest(path: Path, recovery_file: Path | None) -> bytes:
    """Return the bytes in ``path``; refuse recovery keys without a place for what they get.

    Raises:
        StartupRefusedError: it cannot be read, is too large, or its recovery secrets would be lost.
    """
    if path.suffix.lower() in _YAML:
        raise StartupRefusedError(
            f"the file of {_FLAG} is YAML, which a coordinator does not read",
            hint="give it what this prints: keyhouse manifest convert FILE",
        )
    raw = _read(path, LARGEST, _FLAG)
    if not raw:
        raise StartupRefusedError(
            f"the file of {_FLAG} is empty", hint="write the manifest into it"
        )
    if recovery_file is None and _has_recovery_keys(raw):
        raise StartupRefusedError(
            f"the manifest of {_FLAG} has recovery keys, and nobody would get their secrets",
            hint=f"name a file for them: {_FILE_FLAG}",
        )
    if recovery_file is not None and not os.access(recovery_file.absolute().parent, os.W_OK):
        raise StartupRefusedError(
            f"the directory of {_FILE_FLAG} is missing or cannot be written to",
            hint="make it, or name another file",
        )
    return raw


async def apply_startup_manifest(engine: Engine, raw: bytes, recovery_file: Path | None) -> None:
    """Return once ``raw`` is the manifest that is enforced, and its recovery secrets are kept.

    In recovery mode nothing is set, and a warning says so. ``engine`` has to run.

    Raises:
        StartupRefusedError: another manifest is set, or ``recovery_file`` holds something else.
        Forbidden, Invalid: the manifest is not admitted, or not right.
    """
    state = engine.view.state
    if isinstance(state, Recovering):
        log.warning("the startup manifest is not set in recovery mode", reason=state.reason)
        return
    if isinstance(state, AcceptingManifest):
        await _set(engine, raw, recovery_file)
    running = engine.view.running
    if running.manifest != raw:
        raise StartupRefusedError(
            f"the manifest that is set has the fingerprint {fingerprint(running.manifest)},"
            f" that of {_FLAG} {fingerprint(raw)}",
            hint="start without it to continue with the one that is set",
        )
    if recovery_file is not None and running.recovery.holders:
        await asyncio.to_thread(_keep, running, recovery_file)


async def _set(engine: Engine, raw: bytes, recovery_file: Path | None) -> None:
    if recovery_file is not None:
        require_free(recovery_file)
    log.info("setting the startup manifest", fingerprint=fingerprint(raw))
    with closing(Preparation(engine)) as preparation:
        await FirstManifest(engine, preparation).set(lambda: raw)


def require_free(recovery_file: Path) -> None:
    """Refuse a file that is there before a manifest is set. Raises ``StartupRefusedError``."""
    if os.path.lexists(recovery_file):
        raise _taken("is there before any manifest was set")


def _keep(state: Running, path: Path) -> None:
    """Leave the recovery secrets of ``state`` in ``path``: the data that setting answers, JSON."""
    shares = state.recovery.ciphertexts
    content = msgspec.json.encode(SetManifestData(shares, shares))
    if os.path.lexists(path):
        if _read(path, len(content), _FILE_FLAG) != content:
            raise _taken("holds something else than the recovery secrets of this state")
        return
    _write(path, content)
    log.warning("give the recovery secrets to the holders of the keys", file=str(path))


def _taken(why: str) -> StartupRefusedError:
    return StartupRefusedError(
        f"the file of {_FILE_FLAG} {why}",
        hint="move it away: it may be all that recovers another state",
    )


def _has_recovery_keys(raw: bytes) -> bool:
    try:
        return bool(manifests.decode(raw).recovery_keys)
    except InvalidError:  # the complete check will say what is wrong
        return False


def _read(path: Path, limit: int, flag: str) -> bytes:
    """Return the bytes of a file, one more than ``limit`` at most."""
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise StartupRefusedError(
            f"the file of {flag} cannot be read: {os_reason(error)}",
            hint="look at its name and permissions",
        ) from None
    if flag == _FLAG and len(content) > limit:
        raise StartupRefusedError(
            f"the file of {flag} has more than {limit} bytes", hint="make the manifest smaller"
        )
    return content


def _write(path: Path, content: bytes) -> None:
    """Make ``path`` (0600) hold ``content``, all or nothing, durably."""
    try:
        replace_file(path, content, alone=True)
    except OSError:
        raise BrokenError(
            f"the file of {_FILE_FLAG} cannot be written",
            hint="look at its directory and start again: the state keeps the recovery secrets",
        ) from None
