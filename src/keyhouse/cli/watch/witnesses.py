"""Poll witnesses: has a witness seen more of a log than the coordinator shows to the watcher?

A coordinator could show the watcher an old or forked log. Anyone may submit a checkpoint with the
log's signature to a witness. A witness with a different checkpoint answers with the size of that
checkpoint (C2SP tlog-witness). This answer has no signature, so it is an alert and not a proof.
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


class WitnessAnswers(NamedTuple):
    """The problems in the answers of witnesses, as texts; "" means no such problem."""

    withheld: str = ""  # a contradiction
    silent: str = ""  # a witness without a meaningful answer


def poll_witnesses(
    coordinator: Coordinator, checkpoint: LogCheckpoint, urls: Sequence[str]
) -> WitnessAnswers:
    """Submit ``checkpoint``, the newest checkpoint of the log, to the witnesses at ``urls``.

    If a witness has seen more leaves, the function requests the checkpoint of ``coordinator``
    again: the log may have grown.
    """
    if not urls:
        return WitnessAnswers()
    answers = list(zip(urls, asyncio.run(_answers(checkpoint, urls)), strict=True))
    silent = (
        f"the witness at {url} does not answer: {answer.message}"
        for url, answer in answers
        if isinstance(answer, WitnessUnavailableError)
    )
    return WitnessAnswers(_withheld(coordinator, checkpoint, answers), next(silent, ""))


def _withheld(
    coordinator: Coordinator, checkpoint: LogCheckpoint, answers: Sequence[tuple[str, _Answer]]
) -> str:
    """Return a sentence about the first answer that contradicts ``checkpoint``, or "".

    ``answers`` has pairs: the URL of a witness, and the answer of this witness. The function
    requests the newest checkpoint of ``coordinator``, because the log may have
    grown in the meantime.
    """
    for url, answer in answers:
        if isinstance(answer, Contradicts):
            return f"the witness at {url} has seen a log that contradicts this log"
        if not isinstance(answer, OtherSize) or answer.size < checkpoint.size:
            continue
        if answer.size == checkpoint.size:
            return f"the witness at {url} has seen a different log of {checkpoint.size} leaves"
        now = coordinator.log_checkpoint()  # the log may have grown since the last request
        if answer.size > now.size:
            return (
                f"the witness at {url} has seen {answer.size} leaves, expected at most {now.size}"
            )
    return ""


async def _answers(checkpoint: LogCheckpoint, urls: Sequence[str]) -> list[_Answer]:
    """Submit ``checkpoint`` to the witness at each of ``urls``; return the answers in this order.

    For an unavailable witness, the answer is the error.
    """
    async with WitnessClient() as client:

        async def answer(url: str) -> _Answer:
            witness = Witness(
                url, VerifierKey.read(checkpoint.verifier), url
            )  # the request does not use the witness's key
            try:
                return await client.add_checkpoint(witness, checkpoint.size, (), checkpoint.note)
            except WitnessUnavailableError as error:
                return error

        return await asyncio.gather(*map(answer, urls))
