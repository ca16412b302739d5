"""The page Recovery: the holders of shares, the state of a recovery, and a holder's next step."""

from collections.abc import Mapping

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from keyhouse.console.deployments import ConsoleDeployment, root_fingerprint
from keyhouse.console.page import TemplateView, change, page, redirect


@page("recovery")
async def show(request: Request, deployment: ConsoleDeployment) -> TemplateView:
    """Show the notice about a completed recovery, or the holders for a future recovery.

    While the coordinator waits for its recovery, ``keyhouse.console.page`` shows the state of the
    recovery in place of every page.
    """
    del request
    link = await deployment.link()
    if deployment.recovered is not None:
        values = {"recovered": deployment.recovered, "root": root_fingerprint(link)}
        return TemplateView("recovery", values)
    in_force = await deployment.in_force()
    return TemplateView("recovery", {"manifest": in_force.manifest, "recovered": None})


@page("recovery")
async def acknowledge(request: Request, deployment: ConsoleDeployment) -> Response:
    """Close the notice about a completed recovery."""
    del request
    deployment.recovered = None
    return redirect(deployment, "recovery")


@change("recovery")
async def shares(request: Request, deployment: ConsoleDeployment) -> Response:
    """Return the recovery secrets as a file: each share is encrypted to the key of its holder."""
    del request
    link = await deployment.link()
    return secrets_file(deployment, await link.coordinator.recovery_secrets())


def secrets_file(deployment: ConsoleDeployment, secrets: Mapping[str, bytes]) -> Response:
    """Return the encrypted recovery ``secrets`` as a file for `keyhouse recover`.

    ``secrets`` has the secrets by the name of the recovery key.
    """
    name = f"{deployment.name}-recovery-secrets.json"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    content = msgspec.json.encode({"RecoverySecrets": secrets})
    return Response(content, media_type="application/json", headers=headers)
