"""Sets the manifest of ``--startup-manifest`` during the start, if no manifest is set.

No client receives the recovery secrets of this manifest, so the process writes them to a file. The
secrets are encrypted for the holders of the recovery keys, and the state contains them. The process
writes the file from the state, before the first answer. After a crash in between, a later start
writes the file.
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
from keyhouse.server.services.manifests import FirstManifest, Preparation
from keyhouse.wire.client_api import SetManifestData

LARGEST: Final = 16 * 1024 * 1024
"""The largest startup manifest in bytes, as for a manifest from a client."""

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
        self.hint = f"run keyhouse manifest check {shlex.quote(str(file))} to see the lines"


def read_startup_manifest(path: Path, recovery_file: Path | None) -> bytes:
    """Return the bytes of the manifest file ``path``.

    ``recovery_file``: the file for the recovery secrets, or None.

    Raises:
        StartupRefusedError: the file is unreadable or too large, or recovery secrets would be lost:
            the manifest has recovery keys and ``recovery_file`` is None.
    """
    if path.suffix.lower() in _YAML:
        raise StartupRefusedError(
            f"the file of {_FLAG} is YAML; a coordinator reads JSON",
            hint="convert the file: keyhouse manifest convert FILE",
        )
    raw = _read(path, LARGEST, _FLAG)
    if not raw:
        raise StartupRefusedError(
            f"the file of {_FLAG} is empty", hint="write the manifest into the file"
        )
    if recovery_file is None and _has_recovery_keys(raw):
        raise StartupRefusedError(
            f"the manifest of {_FLAG} has recovery keys, and nobody would receive their secrets",
            hint=f"name a file for the secrets with {_FILE_FLAG}",
        )
    if recovery_file is not None and not os.access(recovery_file.absolute().parent, os.W_OK):
        raise StartupRefusedError(
            f"the directory of {_FILE_FLAG} is missing or not writable",
            hint="create the directory, or name another file",
        )
    return raw


async def apply_startup_manifest(engine: Engine, raw: bytes, recovery_file: Path | None) -> None:
    """Set ``raw`` as the manifest, and write the recovery secrets to ``recovery_file``.

    ``recovery_file``: None without recovery keys. In recovery mode, log a warning and set nothing.
    ``engine`` has to run.

    Raises:
        StartupRefusedError: another manifest is set, or ``recovery_file`` has other content.
        ForbiddenError, InvalidError: the manifest is not admitted, or is invalid.
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
            f"the manifest in force has the fingerprint {fingerprint(running.manifest)}, but the"
            f" file of {_FLAG} has {fingerprint(raw)}",
            hint=f"start without {_FLAG} to continue with the manifest in force",
        )
    if recovery_file is not None and running.recovery.holders:
        await asyncio.to_thread(_write_recovery_file, running, recovery_file)


async def _set(engine: Engine, raw: bytes, recovery_file: Path | None) -> None:
    if recovery_file is not None:
        require_free(recovery_file)
    log.info("setting the startup manifest", fingerprint=fingerprint(raw))
    with closing(Preparation(engine)) as preparation:
        await FirstManifest(engine, preparation).set(lambda: raw)


def require_free(recovery_file: Path) -> None:
    """Require that ``recovery_file`` does not exist before the manifest is set.

    Raises ``StartupRefusedError``.
    """
    if os.path.lexists(recovery_file):
        raise _file_conflict("exists before a manifest is set")


def _write_recovery_file(state: Running, path: Path) -> None:
    """Write the recovery secrets of ``state`` to ``path``, as in the answer to an upload.

    The content is the JSON ``data`` of this answer. A file with this content is not written again.
    A file with other content raises ``StartupRefusedError``.
    """
    shares = state.recovery.ciphertexts
    content = msgspec.json.encode(SetManifestData(shares, shares))
    if os.path.lexists(path):
        if _read(path, len(content), _FILE_FLAG) != content:
            raise _file_conflict("does not contain the recovery secrets of this state")
        return
    _write(path, content)
    log.warning("give the recovery secrets to the holders of the keys", file=str(path))


def _file_conflict(why: str) -> StartupRefusedError:
    return StartupRefusedError(
        f"the file of {_FILE_FLAG} {why}",
        hint="move the file: another state may need these recovery secrets",
    )


def _has_recovery_keys(raw: bytes) -> bool:
    try:
        return bool(manifests.decode(raw).recovery_keys)
    except InvalidError:  # the complete check will name the problems
        return False


def _read(path: Path, limit: int, flag: str) -> bytes:
    """Return at most ``limit`` + 1 bytes of the file ``path``, named by the option ``flag``.

    Raises ``StartupRefusedError`` for an unreadable file, and for a larger startup manifest.
    """
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise StartupRefusedError(
            f"the file of {flag} cannot be read: {os_reason(error)}",
            hint="check the name and permissions of the file",
        ) from None
    if flag == _FLAG and len(content) > limit:
        raise StartupRefusedError(
            f"the file of {flag} has more than {limit} bytes", hint="make the manifest smaller"
        )
    return content


def _write(path: Path, content: bytes) -> None:
    """Replace ``path`` (mode 0600) with ``content``, atomically and durably."""
    try:
        replace_file(path, content, alone=True)
    except OSError:
        raise BrokenError(
            f"the file of {_FILE_FLAG} cannot be written",
            hint="check the directory and start again: the state keeps the recovery secrets",
        ) from None
