"""Who can know the keys: each manifest of the line, and which checks were done."""

import asyncio
import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec
from starlette.requests import Request

from keyhouse.base.errors import InvalidError, UnavailableError
from keyhouse.client import AsyncCoordinator, CallRefusedError, TrustedCoordinator
from keyhouse.console.deployments import Deployment
from keyhouse.console.page import View, page
from keyhouse.coordinator.core.timestamps import moment
from keyhouse.manifest import Action, Manifest, Permissions, decode
from keyhouse.transparency.line import Effective
from keyhouse.views.line import Knowers, additions, knowers_of

_SHOWN: Final = 50  # manifests: the newest, each of which may be a request


class Era(msgspec.Struct, frozen=True):
    """The time in which a manifest was in force. ``knowers`` is None if it cannot be read."""

    fingerprint: str
    began: datetime
    version: str  # of the code
    unique: str  # identity of the code, hex
    users: tuple[str, ...] = ()  # who may update it
    needed: int = 0  # of them
    knowers: Knowers | None = None
    adds: tuple[str, ...] = ()  # compared with the manifest before


@page("keys")
async def show(request: Request, deployment: Deployment) -> View:
    """Show the manifests of the line, newest first, after it was proven again."""
    del request
    link = await deployment.link()
    trusted = await link.coordinator.attest(link.described.trust)  # an update may have come since
    eras = await _eras(link.coordinator, trusted)
    total = 0 if trusted.line is None else len(trusted.line.manifests)
    values = {"checks": trusted.checks, "eras": eras[::-1], "total": total, "line": trusted.line}
    return View("keys", values)


async def _eras(coordinator: AsyncCoordinator, trusted: TrustedCoordinator) -> Sequence[Era]:
    if trusted.line is None:
        return ()
    found: list[Era] = []
    before: Knowers | None = None
    for _, entry in list(trusted.line.effective())[-_SHOWN:]:
        manifest = await _manifest(coordinator, entry.manifest)
        era = _era(entry, manifest, before)
        found.append(era)
        before = era.knowers
    return found


def _era(entry: Effective, manifest: Manifest | None, before: Knowers | None) -> Era:
    code = entry.code
    era = Era(entry.manifest, moment(entry.time), code.version, code.unique or code.vm)
    if manifest is None:
        return era
    users = Permissions(manifest).holders(Action.UPDATE_MANIFEST)
    knowers = knowers_of(manifest)
    return msgspec.structs.replace(
        era,
        users=users,
        needed=manifest.config.update_threshold or len(users),
        knowers=knowers,
        adds=() if before is None else tuple(additions(before, knowers)),
    )


async def _manifest(coordinator: AsyncCoordinator, fingerprint: str) -> Manifest | None:
    """Return a manifest of the line; None: it is not published, or this version cannot read it."""
    try:
        raw = await coordinator.log_part(f"object/{fingerprint}")
    except (CallRefusedError, UnavailableError):
        return None
    if hashlib.sha256(raw).hexdigest() != fingerprint:
        return None
    try:
        return await asyncio.to_thread(decode, raw)
    except InvalidError:
        return None
