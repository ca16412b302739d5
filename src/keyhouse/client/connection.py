"""HTTP calls to one address over one TLS context: bounded, timed, without redirects."""

import ssl
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import httpx
import msgspec

from keyhouse.client.address import Address
from keyhouse.client.errors import AnswerUnreadable, TrustFailed, Unreachable

__all__ = ["Answer", "Connection"]

_POSTED = "it may have been carried out: look at status and log before you repeat it"
_TRY_AGAIN = "check the address, and that the coordinator runs"


class Answer(msgspec.Struct, frozen=True):
    """What came back."""

    http_status: int
    body: bytes
    state: str | None = None  # the header Keyhouse-State


class Connection:
    """Keeps TLS connections to ``address``. ``timeout``, in seconds, is for each whole call.

    Neither environment variables nor ``.netrc`` nor proxies have any effect.
    """

    def __init__(self, address: Address, context: ssl.SSLContext, timeout: float) -> None:
        self._address = address
        self._timeout = timeout
        self._client = httpx.Client(
            base_url=f"https://{address}",
            verify=context,
            trust_env=False,
            follow_redirects=False,
            timeout=timeout,
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        body: bytes | None = None,
        maximum: int,
    ) -> Answer:
        """Return the answer; its body has at most ``maximum`` bytes.

        Raises ``TrustFailed`` if the handshake does, ``Unreachable`` if no whole answer comes in
        time, ``AnswerUnreadable`` if it is too long or compressed.
        """
        deadline = time.monotonic() + self._timeout
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            with self._client.stream(
                method, path, params=tuple(query), content=body, headers=headers
            ) as response:
                body = self._read(response, maximum, deadline)
                state = response.headers.get("Keyhouse-State")
                return Answer(response.status_code, body, state)
        except httpx.HTTPError as exc:
            raise self._unreachable(exc, sent=method != "GET") from None

    def _read(self, response: httpx.Response, maximum: int, deadline: float) -> bytes:
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise AnswerUnreadable(f"the answer of {self._address} is compressed")
        parts = []
        left = maximum
        for part in response.iter_raw():
            left -= len(part)
            if left < 0:
                raise AnswerUnreadable(
                    f"the answer of {self._address} has more than {maximum} bytes"
                )
            if time.monotonic() > deadline:
                raise httpx.ReadTimeout("the whole answer took too long")
            parts.append(part)
        return b"".join(parts)

    def _unreachable(self, error: httpx.HTTPError, *, sent: bool) -> Unreachable | TrustFailed:
        if _is_certificate_error(error):
            return TrustFailed(
                f"the certificate of {self._address} does not verify under the verified root",
                hint="it is not the coordinator that was verified; send it nothing",
            )
        if isinstance(error, httpx.ConnectError):
            return Unreachable(f"no TLS connection to {self._address}", hint=_TRY_AGAIN)
        if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
            return Unreachable(f"{self._address} does not answer", hint=_TRY_AGAIN)
        what = "in time" if isinstance(error, httpx.TimeoutException) else "before it closed"
        return Unreachable(
            f"{self._address} gave no whole answer {what}",
            hint=_POSTED if sent else _TRY_AGAIN,
            sent=sent,
        )


def _is_certificate_error(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False
