"""Asks witnesses whether they have seen more of a log than the watcher was shown.

Anyone may submit a checkpoint that the log has signed. A witness that has another one answers its
size (C2SP tlog-witness). Nobody signs that answer, so it is an alert and no proof.
"""

import asyncio
from collections.abc import Sequence

from keyhouse.client import Coordinator
from keyhouse.client.public_log import LogCheckpoint
from keyhouse.transparency.keys import VerifierKey
from keyhouse.transparency.policy import Witness
from keyhouse.witnesses.client import WitnessClient, WitnessUnavailableError
from keyhouse.witnesses.told import Contradicts, OtherSize, Told


def withheld(coordinator: Coordinator, seen: LogCheckpoint, urls: Sequence[str]) -> str:
    """Return what witnesses say that contradicts ``seen``; "" if none of them does."""
    for url, told in zip(urls, asyncio.run(_asked(seen, urls)), strict=True):
        if isinstance(told, Contradicts):
            return f"the witness at {url} has seen a log that this one does not continue"
        if not isinstance(told, OtherSize) or told.size < seen.size:
            continue
        if told.size == seen.size:
            return f"the witness at {url} has seen another log of {seen.size} leaves"
        now = coordinator.log_checkpoint()  # it may have grown meanwhile
        if told.size > now.size:
            return (
                f"the witness at {url} has seen {told.size} leaves, and {now.size} are shown here"
            )
    return ""


async def _asked(seen: LogCheckpoint, urls: Sequence[str]) -> list[Told | None]:
    """Return what each witness says; None: nothing that means something now."""
    async with WitnessClient() as client:

        async def ask(url: str) -> Told | None:
            witness = Witness(url, VerifierKey.read(seen.verifier), url)  # its key is not used
            try:
                return await client.add_checkpoint(witness, seen.size, (), seen.note)
            except WitnessUnavailableError:
                return None

        return await asyncio.gather(*map(ask, urls))
