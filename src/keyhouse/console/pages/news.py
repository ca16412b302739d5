"""News for the frame of every page: pending updates, recoveries, and an unreachable coordinator.

The script of a page reads this frame every few seconds, and replaces the header and the menu.
"""

import contextlib

from starlette.requests import Request
from starlette.responses import Response

from keyhouse.base.errors import KeyhouseError
from keyhouse.client import TrustError
from keyhouse.console.deployments import Deployment, InRecoveryError
from keyhouse.console.page import SECTIONS, View, page, rendered


@page("")  # without a section: the query names the section
async def show(request: Request, deployment: Deployment) -> Response:
    """Return an empty page with the present header and menu. Errors appear in the header.

    A distrusted coordinator receives no request.
    """
    section = request.query_params.get("section", "")
    if deployment.distrust is None:
        with contextlib.suppress(KeyhouseError):
            await _read(deployment)
    return rendered(request, section if section in SECTIONS else "", deployment, View("base"))


async def _read(deployment: Deployment) -> None:
    try:
        await deployment.read_news()
    except InRecoveryError:
        pass
    except TrustError as error:
        if await deployment.find_recovery() is None:
            deployment.distrust = error
