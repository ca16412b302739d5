"""Whatever httpx raises becomes one of the SDK's errors, and says rightly what may be done."""

import ssl
from collections.abc import Iterator

import httpcore
import httpx
import pytest

from keyhouse.client import Address, ClientSetupError, TrustError, UnreachableError
from keyhouse.client.effects import HttpRequest
from keyhouse.client.http.rules import FROM_HTTPX, RequestProgress, client_error
from keyhouse.client.tokens.transport import PoolTransport

WHERE = Address("localhost", 4433)
NOT_CONNECTED = {httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout}
# Misuse of a response by the program itself: it would be our bug, and has to be seen.
BUGS = {httpx.StreamError, httpx.CookieConflict}


def every(kind: type[Exception]) -> Iterator[type[Exception]]:
    yield kind
    for child in kind.__subclasses__():
        yield from every(child)


def defined() -> set[type[Exception]]:
    public = (getattr(httpx, name) for name in httpx.__all__)
    return {one for one in public if isinstance(one, type) and issubclass(one, Exception)}


def test_no_error_of_httpx_is_forgotten() -> None:
    caught = {each for kind in FROM_HTTPX for each in every(kind)}
    bugs = {each for kind in BUGS for each in every(kind)}
    assert defined() <= caught | bugs
    assert not caught & bugs


@pytest.mark.parametrize("kind", sorted(every(httpx.TransportError), key=str))
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_error_of_the_transport_is_unreachable(kind: type[Exception], method: str) -> None:
    error = kind("secret detail")
    assert isinstance(error, httpx.HTTPError)
    found = client_error(WHERE, HttpRequest(method, "/x"), error, RequestProgress())
    assert isinstance(found, UnreachableError)
    assert found.connected is (kind not in NOT_CONNECTED)
    assert found.sent is (found.connected and method == "POST")
    assert "secret detail" not in str(found)


def test_a_certificate_that_does_not_verify_is_a_trust_failure() -> None:
    error = httpx.ConnectError("handshake")
    error.__cause__ = ssl.SSLCertVerificationError("self-signed")
    assert isinstance(
        client_error(WHERE, HttpRequest("POST", "/x"), error, RequestProgress()), TrustError
    )


def test_a_request_line_that_is_too_long_is_the_callers_doing() -> None:
    found = client_error(
        WHERE, HttpRequest("GET", "/x"), httpx.InvalidURL("too long"), RequestProgress()
    )
    assert isinstance(found, ClientSetupError)


def of_httpcore() -> list[type[Exception]]:
    public = (getattr(httpcore, name) for name in httpcore.__all__)
    errors = {one for one in public if isinstance(one, type) and issubclass(one, Exception)}
    # A pool raises it to itself, to take another connection.
    return sorted(errors - {httpcore.ConnectionNotAvailable}, key=str)


@pytest.mark.parametrize("kind", of_httpcore())
def test_an_error_of_a_given_pool_is_httpxs_of_the_same_name(kind: type[Exception]) -> None:
    class Network(httpcore.NetworkBackend):
        def connect_tcp(self, *_: object, **__: object) -> httpcore.NetworkStream:
            raise kind("said")

    pool = httpcore.ConnectionPool(network_backend=Network())
    with (
        httpx.Client(transport=PoolTransport(pool)) as client,
        pytest.raises(getattr(httpx, kind.__name__), match="said") as raised,
    ):
        client.get("http://localhost/")
    assert isinstance(raised.value, httpx.TransportError)
    assert isinstance(raised.value.__cause__, kind)
