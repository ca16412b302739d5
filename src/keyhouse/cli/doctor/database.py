"""What `keyhouse doctor` finds about the database of coordinators that share a state."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from keyhouse.base.errors import KeyhouseError
from keyhouse.cli.doctor.finding import Finding, failed
from keyhouse.cli.store.database import connected
from keyhouse.journal.shared import TRUSTED_FOR_FRESHNESS


def database_findings(url: str, password_file: Path | None) -> Iterator[Finding]:
    """Yield what is found about the database at ``url``. Nothing in it changes."""

    async def look() -> tuple[bytes | None, bool]:
        async with connected(url, password_file) as database:
            return await database.current(), await database.awaits_standby()

    try:
        current, awaits_standby = asyncio.run(look())
    except KeyhouseError as error:
        yield failed("database", error)
        return
    holds = "no store yet" if current is None else f"the store {current.hex()}"
    yield Finding("database", "ok", f"it answers, and holds {holds}")
    yield Finding("database", "ok", TRUSTED_FOR_FRESHNESS)
    if awaits_standby:
        yield Finding("standby", "ok", "changes are answered after a standby has them")
    else:
        fix = "set synchronous_standby_names in the configuration of the server"
        lost = "no standby is awaited: a failover may lose the newest changes"
        yield Finding("standby", "warning", lost, fix)
