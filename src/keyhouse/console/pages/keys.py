"""The page Keys: the people and code that can know the keys, under each manifest of the line.

The page also shows the checks of the verification.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec
from starlette.requests import Request

from keyhouse.base.errors import InvalidError, UnavailableError
from keyhouse.client import AsyncCoordinator, CallRefusedError, TrustedCoordinator
from keyhouse.console.deployments import ConsoleDeployment
from keyhouse.console.page import TemplateView, page
from keyhouse.coordinator.core.context import moment
from keyhouse.manifest import Action, Manifest, Permissions, decode
from keyhouse.transparency.line import Effective
from keyhouse.views.line import RootKeyAccess, additions, root_key_access

# Newest manifests on the page. Each can cost a request.
_SHOWN: Final = 50


class ManifestPeriod(msgspec.Struct, frozen=True):
    """A manifest of the line, and the people and code that could know the keys under this manifest.

    ``access`` is None if the console does not have the manifest.
    """

    fingerprint: str
    began: datetime
    # Version of the code.
    version: str
    # Identity of the code, hex.
    unique: str
    # Users who may update the manifest.
    users: tuple[str, ...] = ()
    # Number of users that an update needs.
    needed: int = 0
    access: RootKeyAccess | None = None
    # Additions, compared with the previous manifest.
    adds: tuple[str, ...] = ()


@page("keys")
async def show(request: Request, deployment: ConsoleDeployment) -> TemplateView:
    """Verify the line of the root again, and show its manifests, newest first."""
    del request
    link = await deployment.link()
    # An update may have extended the line since the last verification.
    trusted = await link.coordinator.attest(link.described.trust)
    periods = await _periods(link.coordinator, trusted)
    total = 0 if trusted.line is None else len(trusted.line.manifests)
    values = {
        "checks": trusted.checks,
        "periods": periods[::-1],
        "total": total,
        "line": trusted.line,
    }
    return TemplateView("keys", values)


async def _periods(
    coordinator: AsyncCoordinator, trusted: TrustedCoordinator
) -> Sequence[ManifestPeriod]:
    if trusted.line is None:
        return ()
    found: list[ManifestPeriod] = []
    before: RootKeyAccess | None = None
    for _, entry in list(trusted.line.effective())[-_SHOWN:]:
        manifest = await _manifest(coordinator, entry.manifest)
        period = _period(entry, manifest, before)
        found.append(period)
        before = period.access
    return found


def _period(
    entry: Effective, manifest: Manifest | None, before: RootKeyAccess | None
) -> ManifestPeriod:
    code = entry.code
    period = ManifestPeriod(
        entry.manifest, moment(entry.time), code.version, code.unique or code.vm
    )
    if manifest is None:
        return period
    users = Permissions(manifest).holders(Action.UPDATE_MANIFEST)
    access = root_key_access(manifest)
    return msgspec.structs.replace(
        period,
        users=users,
        needed=manifest.config.update_threshold or len(users),
        access=access,
        adds=() if before is None else tuple(additions(before, access)),
    )


async def _manifest(coordinator: AsyncCoordinator, fingerprint: str) -> Manifest | None:
    """Return the manifest with ``fingerprint`` (hex) from the log of ``coordinator``.

    None means that the log does not have the manifest, or that this version of Keyhouse cannot read
    the manifest.
    """
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
