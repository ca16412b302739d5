"""Request cosignatures of a checkpoint from witnesses (C2SP tlog-witness), with limits.

Size and time of an answer are limited. Only three answers have a meaning: 200 with cosignatures,
409 with the witness's size, and 422. Status 422 means that the checkpoint contradicts the witness's
checkpoint. All further answers mean "not now", because witnesses differ: some answer 500 where the
specification requires 403 or 404.
"""

import asyncio
import re
import ssl
from base64 import b64encode
from collections.abc import Sequence
from typing import Final

import httpx

from keyhouse.base.errors import UnavailableError
from keyhouse.base.services import AnswerUnusableError, ServiceClient, content_of, tls_context
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.keys import ANSWER_BYTES
from keyhouse.transparency.policy import Witness
from keyhouse.witnesses.answers import Contradicts, Cosigned, OtherSize, WitnessAnswer

PATIENCE: Final = 5.0
"""Seconds to wait for an answer."""

_COSIGNED: Final = 200  # C2SP tlog-witness: HTTP status of a cosignature
_OTHER_SIZE: Final = 409  # C2SP tlog-witness: the witness knows another size
_CONTRADICTS: Final = 422  # C2SP tlog-witness: the proof does not verify
_CONNECTIONS: Final = 64  # to all witnesses at a time, chosen: two for each of at most 32 witnesses
_SIZE: Final = re.compile(rb"(?:0|[1-9][0-9]{0,18})\n?")
_SIZE_TYPE: Final = "text/x.tlog.size"


class WitnessUnavailableError(UnavailableError):
    """The witness cannot be reached, or sends no valid answer."""

    code = "witness-unavailable"
    next_step = "check the witness, and its URL in the policy"


class WitnessClient(ServiceClient):
    """A client of witnesses, for ``async with``. ``patience``: seconds to wait for an answer.

    The client trusts the CAs of the system. Proxies of the environment have no effect, and
    redirects are not followed.
    """

    def __init__(self, *, patience: float = PATIENCE) -> None:
        super().__init__(tls_context(), patience=patience, connections=_CONNECTIONS)

    async def add_checkpoint(
        self, witness: Witness, old: int, proof: Sequence[bytes], note: bytes
    ) -> WitnessAnswer:
        """Submit ``note``, a signed checkpoint, to ``witness``; return its answer.

        ``old``: the size of the last checkpoint that the witness has cosigned. ``proof``: the
        hashes that prove that ``note`` continues that checkpoint. Raises
        ``WitnessUnavailableError``, whose text repeats no part of an answer.
        """
        try:
            witness.require_url()
        except LogInvalidError as fault:
            raise WitnessUnavailableError(fault.message) from None
        hashes = b"".join(b64encode(each) + b"\n" for each in proof)
        body = b"old %d\n%b\n%b" % (old, hashes, note)
        try:
            async with asyncio.timeout(self.patience):
                return await self._post(f"{witness.url.rstrip('/')}/add-checkpoint", body)
        except AnswerUnusableError as unusable:
            raise WitnessUnavailableError(f"the answer of the witness {unusable}") from None
        except (httpx.InvalidURL, UnicodeError):  # the host is neither a name nor an address
            raise WitnessUnavailableError("the URL of the witness is invalid") from None
        except (TimeoutError, httpx.TimeoutException):
            raise WitnessUnavailableError("the witness does not answer in time") from None
        except (httpx.HTTPError, httpx.StreamError, ssl.SSLError, OSError):
            raise WitnessUnavailableError(
                "the witness is unreachable, or ended the connection"
            ) from None

    async def _post(self, url: str, body: bytes) -> WitnessAnswer:
        async with self.request("POST", url, body) as response:
            status = response.status_code
            if status not in {_COSIGNED, _OTHER_SIZE, _CONTRADICTS}:
                raise WitnessUnavailableError(f"the witness answers with the HTTP status {status}")
            if status == _CONTRADICTS:
                return Contradicts()
            content = await content_of(response, ANSWER_BYTES)
            if status == _COSIGNED:
                return Cosigned(content)
            kind = response.headers.get("content-type", "").partition(";")[0].strip()
            if kind != _SIZE_TYPE or not _SIZE.fullmatch(content):
                raise WitnessUnavailableError(
                    "the witness answers with the HTTP status 409, but without its size of the log"
                )
            return OtherSize(int(content))
