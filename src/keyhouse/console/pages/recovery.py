"""The page Recovery: the holders of shares, the state of a recovery, and a holder's next step."""

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from keyhouse.client import AsyncCoordinator, Offer, parse_address, require_remembered, verify_async
from keyhouse.client.from_context import Described, described
from keyhouse.console.deployments import Deployment
from keyhouse.console.page import View, change, page

_RECOVERY_MODE: Final = 1
_RUNNING: Final = 3


@page("recovery")
async def show(request: Request, deployment: Deployment) -> View:
    """Show the state of a recovery, or the people who would take part in a recovery."""
    del request
    offer = await _offer(deployment)
    if offer is not None:
        return View("recovering", {"offer": offer})
    link = await deployment.link()
    status = await link.coordinator.status()
    if status.code != _RUNNING:
        return View("recovery", {"status": status, "manifest": None, "user": ""})
    in_force = await deployment.in_force()
    values = {"status": status, "manifest": in_force.manifest, "user": in_force.user}
    return View("recovery", values)


@change("recovery")
async def shares(request: Request, deployment: Deployment) -> Response:
    """Return the encrypted shares as a file. Only its holder's key decrypts a share."""
    del request
    link = await deployment.link()
    return secrets_file(deployment, await link.coordinator.recovery_secrets())


def secrets_file(deployment: Deployment, found: Mapping[str, bytes]) -> Response:
    """Return encrypted recovery secrets as a file, in the form of the command line."""
    name = f"{deployment.name}-recovery-secrets.json"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    content = msgspec.json.encode({"RecoverySecrets": found})
    return Response(content, media_type="application/json", headers=headers)


async def _offer(deployment: Deployment) -> Offer | None:
    """Return the offer of a coordinator in recovery mode, or None in any other mode.

    In recovery mode, the coordinator has a temporary root that no memory contains. The offer
    contains the deployment's own root.
    """
    found = await asyncio.to_thread(described, deployment.name, anonymous=True)
    trusted = await verify_async(found.address, found.trust, None)
    async with AsyncCoordinator(trusted, None) as coordinator:
        if (await coordinator.status()).code != _RECOVERY_MODE:
            return None
        offer = await coordinator.recovery_offer()
    require_remembered(offer, await asyncio.to_thread(_remembered, found))
    return offer


def _remembered(found: Described) -> str:
    """Return the SHA-256 of the root in the memory for this address, or ""."""
    return "" if found.memory is None else found.memory.read().root_at(parse_address(found.address))
