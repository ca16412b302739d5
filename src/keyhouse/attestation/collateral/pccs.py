"""Fetches collateral from a PCCS (Intel's PCS, version 4) over HTTPS, bounded in size and time.

Answers are not trusted: only the vendor's signatures make them useful. TLS keeps third parties from
reading requests and from withholding answers.
"""

import asyncio
import ssl
from typing import Final

import httpx

from keyhouse.attestation.collateral.bundle import Collateral
from keyhouse.attestation.collateral.facts import PlatformKind
from keyhouse.attestation.collateral.pccs_format import Fetched, PccsAnswers, assemble, requests_for
from keyhouse.attestation.errors import (
    CollateralRefusedError,
    CollateralUnavailableError,
    ConfigurationRefusedError,
)
from keyhouse.base.progress import advance, begin
from keyhouse.base.services import AnswerUnusableError, ServiceClient, content_of, tls_context

MAX_ANSWER: Final = 1 << 20
"""Maximum length in bytes of an answer. Real answers have at most some 20,000."""

PATIENCE: Final = 20.0
"""Seconds for a fetch with all four answers."""

_CONNECTIONS = 8  # chosen bound of parallel requests to one PCCS
_OK = 200  # HTTP status, RFC 9110, 15.3.1
_NOT_FOUND = 404  # HTTP status, RFC 9110, 15.5.5
_LONGEST_URL = 2_000  # characters, chosen: real addresses are far shorter
_PORTS = 65_535  # the largest TCP port


class Pccs(ServiceClient):
    """A PCCS at ``url``: ``https://name:8081``, with a path if necessary.

    ``ca_pem``: the only authorities (PEM) for the certificate of the PCCS. If empty, the
    authorities of the system count (OpenSSL reads their file from SSL_CERT_FILE). ``patience``:
    seconds for a fetch. Proxies of the environment and .netrc have no effect. Redirects are not
    followed. Use with ``async with``. Raises ``ConfigurationRefusedError`` for an invalid address
    or CA.
    """

    def __init__(self, url: str, ca_pem: bytes = b"", *, patience: float = PATIENCE) -> None:
        self._base = _base(url)
        super().__init__(_context(ca_pem), patience=patience, connections=_CONNECTIONS)

    async def fetch(self, kind: PlatformKind, *, early: bool = False) -> Collateral:
        """Return the present collateral of ``kind`` from the PCCS. Nothing is verified.

        ``early``: as in ``requests_for``.

        Raises ``CollateralUnavailableError`` without a complete answer in time, and
        ``CollateralRefusedError`` if an answer is not collateral.
        """
        # A failed request does not cancel the rest. No request still runs after the fetch.
        paths = tuple(requests_for(kind, early=early))
        begin("answers", len(paths))
        asked = (self._get(path) for path in paths)
        try:
            async with asyncio.timeout(self.patience):
                outcomes = await asyncio.gather(*asked, return_exceptions=True)
        except TimeoutError:
            raise _unavailable("does not answer in time") from None
        tcb, qe_identity, pck_crl, root_crl = map(_require_answer, outcomes)
        return assemble(PccsAnswers(tcb, qe_identity, pck_crl, root_crl))

    async def _get(self, path: str) -> Fetched:
        try:
            async with self.request("GET", self._base + path) as response:
                _require_ok(response.status_code, path)
                content = await content_of(response, MAX_ANSWER)
                fetched = Fetched(dict(response.headers), content)
                advance(1)
                return fetched
        except AnswerUnusableError as unusable:
            raise CollateralRefusedError(
                f"an answer of the PCCS {unusable}", hint="check that the address is of a PCCS"
            ) from None
        except httpx.TimeoutException:
            raise _unavailable("does not answer in time") from None
        except httpx.ConnectError as error:
            raise _unconnected(error) from None
        except (httpx.HTTPError, httpx.StreamError, ssl.SSLError, OSError):
            raise _unavailable("did not send a complete answer") from None


def _require_ok(status: int, path: str) -> None:
    what = path.partition("?")[0]
    if status == _NOT_FOUND:
        raise _unavailable(
            f"has no {what}",
            "check that the address is of a PCCS, and that the PCCS knows this platform",
        )
    if status != _OK:
        raise _unavailable(
            f"answers with the HTTP status {status} for {what}", "read the log of the PCCS"
        )


def _require_answer(outcome: Fetched | BaseException) -> Fetched:
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _unconnected(error: BaseException) -> CollateralUnavailableError:
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, ssl.SSLCertVerificationError):
            return _unavailable(
                "has a certificate of an authority that is not trusted, or of another name",
                "name the CA of the PCCS with --pccs-ca; use the name in its certificate",
            )
        found = found.__cause__ or found.__context__
    return _unavailable("cannot be reached")


def _unavailable(
    problem: str, hint: str = "check the address of the PCCS, and that the PCCS runs"
) -> CollateralUnavailableError:
    return CollateralUnavailableError(f"the PCCS {problem}", hint=hint)


def _base(url: str) -> str:
    try:
        parsed = httpx.URL(url)
        host, port = parsed.host, parsed.port  # httpx parses both here
    except (httpx.InvalidURL, ValueError):
        raise _invalid_address() from None
    valid_host = host and "%" not in host  # httpx escapes characters that no name can have
    plain = parsed.scheme == "https" and valid_host and (port is None or 0 < port <= _PORTS)
    if not plain or parsed.userinfo or parsed.query or parsed.fragment or len(url) > _LONGEST_URL:
        raise _invalid_address()
    return str(parsed).rstrip("/?#") + "/"


def _invalid_address() -> ConfigurationRefusedError:
    return ConfigurationRefusedError(
        "the address of the PCCS is not of the form https://name:port",
        hint="write https://name:port, with a path if necessary, without user or query",
    )


def _context(ca_pem: bytes) -> ssl.SSLContext:
    try:
        return tls_context(ca_pem)
    except (ssl.SSLError, ValueError):
        raise ConfigurationRefusedError(
            "the CA of the PCCS is not a PEM certificate",
            hint="name a file with PEM certificates in --pccs-ca",
        ) from None
