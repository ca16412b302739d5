"""Ask witnesses whether they have seen more of a log than the coordinator shows to the watcher.

A coordinator could show the watcher an old or forked log. Anyone may submit a checkpoint with the
log's signature to a witness. A witness with another checkpoint answers with its size (C2SP
tlog-witness). This answer has no signature, so it is an alert and not a proof.
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
    """The answers of the witnesses. An empty text means no such answer."""

    withheld: str = ""  # a contradiction
    silent: str = ""  # a witness without a meaningful answer


def ask(coordinator: Coordinator, seen: LogCheckpoint, urls: Sequence[str]) -> Asked:
    """Return the answers of the witnesses at ``urls`` about ``seen``."""
    if not urls:
        return Asked()
    answers = list(zip(urls, asyncio.run(_answers(seen, urls)), strict=True))
    silent = (
        f"the witness at {url} does not answer: {told.message}"
        for url, told in answers
        if isinstance(told, WitnessUnavailableError)
    )
    return Asked(_withheld(coordinator, seen, answers), next(silent, ""))


def _withheld(
    coordinator: Coordinator, seen: LogCheckpoint, answers: Sequence[tuple[str, _Answer]]
) -> str:
    """Return the first contradiction of ``seen`` among ``answers``, or ""."""
    for url, told in answers:
        if isinstance(told, Contradicts):
            return f"the witness at {url} has seen a log that contradicts this log"
        if not isinstance(told, OtherSize) or told.size < seen.size:
            continue
        if told.size == seen.size:
            return f"the witness at {url} has seen a different log of {seen.size} leaves"
        now = coordinator.log_checkpoint()  # the log may have grown since the last request
        if told.size > now.size:
            return f"the witness at {url} has seen {told.size} leaves, expected at most {now.size}"
    return ""


async def _answers(seen: LogCheckpoint, urls: Sequence[str]) -> list[_Answer]:
    """Return the answer of each witness, or the error of an unavailable witness."""
    async with WitnessClient() as client:

        async def answer(url: str) -> _Answer:
            witness = Witness(
                url, VerifierKey.read(seen.verifier), url
            )  # the request does not use the witness's key
            try:
                return await client.add_checkpoint(witness, seen.size, (), seen.note)
            except WitnessUnavailableError as error:
                return error

        return await asyncio.gather(*map(answer, urls))
