"""Asks witnesses whether they have seen more of a log than the watcher was shown.

Anyone may submit a checkpoint that the log has signed. A witness that has another one answers its
size (C2SP tlog-witness). Nobody signs that answer, so it is an alert and no proof.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from keyhouse.client import Coordinator
from keyhouse.client.public_log import LogCheckpoint
from keyhouse.transparency.keys import VerifierKey
from keyhouse.transparency.policy import Witness
from keyhouse.witnesses.answers import Contradicts, OtherSize, WitnessAnswer
from keyhouse.witnesses.client import WitnessClient, WitnessUnavailableError

_Answer = WitnessAnswer | WitnessUnavailableError


class Asked(NamedTuple):
    """What witnesses say. Empty texts: there is nothing to tell."""

    withheld: str = ""  # a contradiction
    silent: str = ""  # a witness without an answer that means something


def ask(coordinator: Coordinator, seen: LogCheckpoint, urls: Sequence[str]) -> Asked:
    """Return what the witnesses at ``urls`` say of ``seen``."""
    if not urls:
        return Asked()
    answers = list(zip(urls, asyncio.run(_answers(seen, urls)), strict=True))
    silent = (
        f"the witness at {url} cannot be asked: {told.message}"
        for url, told in answers
        if isinstance(told, WitnessUnavailableError)
    )
    return Asked(_withheld(coordinator, seen, answers), next(silent, ""))


def _withheld(
    coordinator: Coordinator, seen: LogCheckpoint, answers: Sequence[tuple[str, _Answer]]
) -> str:
    """Return the first of ``answers`` that contradicts ``seen``; "" if none of them does."""
    for url, told in answers:
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


async def _answers(seen: LogCheckpoint, urls: Sequence[str]) -> list[_Answer]:
    """Return what each witness says, or why that means nothing now."""
    async with WitnessClient() as client:

        async def answer(url: str) -> _Answer:
            witness = Witness(url, VerifierKey.read(seen.verifier), url)  # its key is not used
            try:
                return await client.add_checkpoint(witness, seen.size, (), seen.note)
            except WitnessUnavailableError as error:
                return error

        return await asyncio.gather(*map(answer, urls))
