"""TLS that requests any client certificate: contexts and sessions of OpenSSL.

CPython's ``ssl`` cannot request a client certificate without a verification of the chain. Here,
self-signed certificates are usual, and exact bytes decide about the identity. pyOpenSSL's own
connections have no public way for three needs: a common read buffer of all connections, a check of
a client's key, and the list of groups. So sessions use OpenSSL's functions, and ``tls_transport``
carries connections with them.

The functions come from the binding of ``cryptography`` by its public name, but each version may
have other functions. The pointer of a pyOpenSSL context has a private name only.
``tests/server/net/test_openssl_binding.py`` fails if a version changes these functions or this
name.

Rules of this file:

1. The identity is the leaf whose key signed the handshake, never another certificate of the chain.

2. A context is replaced, and never changed. Each context has its own ticket keys (from OpenSSL) and
its own session-id context, so a session resumes only under its context.

3. OpenSSL's error queue belongs to the thread. The queue is emptied before each call whose outcome
   it reports, and after each call that may leave an error. So an error of a connection, or of other
cryptography, never ends another connection.

4. Keys come from memory. No environment variable and no configuration file has an effect.
"""

import secrets
import sys
import threading
from collections.abc import Sequence
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.bindings.openssl.binding import Binding
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_der_private_key
from OpenSSL import SSL

from keyhouse.base.client_keys import SMALL, has_costly_key
from keyhouse.base.errors import BrokenError
from keyhouse.base.secret import Secret

ffi: Any = Binding.ffi
lib: Any = Binding().lib


def pointer(context: SSL.Context) -> Any:
    """Return the ``SSL_CTX *`` of ``context``. The pointer is valid as long as ``context``."""
    return context._context  # noqa: SLF001 - there is no public way, see above


TLS12_CIPHERS: Final = b"ECDHE+AESGCM:ECDHE+CHACHA20"
GROUPS: Final = b"X25519MLKEM768:X25519:P-256:P-384"
# OpenSSL's own list without DSA and the Brainpool curves, which cost this server up to 10 ms, and
# without SHA-1 and SHA-224. ``?``: older builds of OpenSSL lack the algorithm.
SIGNATURES: Final = (
    b"?mldsa65:?mldsa87:?mldsa44"
    b":ecdsa_secp256r1_sha256:ecdsa_secp384r1_sha384:ecdsa_secp521r1_sha512:ed25519:ed448"
    b":rsa_pss_pss_sha256:rsa_pss_pss_sha384:rsa_pss_pss_sha512"
    b":rsa_pss_rsae_sha256:rsa_pss_rsae_sha384:rsa_pss_rsae_sha512"
    b":rsa_pkcs1_sha256:rsa_pkcs1_sha384:rsa_pkcs1_sha512"
)
# The identity in a session is looked up again for each request.
_TICKET_SECONDS: Final = 3600
BUFFER_BYTES: Final = 65536
_INBOX_BYTES: Final = 32768
_COMPLETE_BUILD: Final = (
    "install the version of cryptography in Keyhouse's lock files: its OpenSSL is complete"
)

_bio_length = lib.BIO_get_mem_data
_clear_errors = lib.ERR_clear_error
_NULL: Final = ffi.NULL
# OpenSSL's alert is unsupported_certificate.
_COSTLY: Final = lib.X509_V_ERR_INVALID_PURPOSE


@ffi.callback("int (*)(int, X509_STORE_CTX *)", error=0)  # type: ignore[untyped-decorator]  # cffi has no types
def _judge_chain(_ok: int, store: Any) -> int:
    """Accept every chain of a client, except a chain with a costly key.

    The handshake proves the leaf's key, and nothing else of the chain is used. OpenSSL always calls
    this function, because no certificate is trusted. The call comes before OpenSSL verifies the
    handshake with the leaf's key, and the leaf with the key of an appended certificate. A costly
    key would make these verifications slow.
    """
    chain = lib.X509_STORE_CTX_get1_chain(store)
    accepted = chain != _NULL
    if accepted:
        certificates = [lib.sk_X509_value(chain, at) for at in range(lib.sk_X509_num(chain))]
        lib.sk_X509_free(chain)
        accepted = not any(map(_is_costly, certificates))
        for certificate in certificates:
            lib.X509_free(certificate)
    lib.X509_STORE_CTX_set_error(store, lib.X509_V_OK if accepted else _COSTLY)
    return int(accepted)


def _is_costly(certificate: Any) -> bool:
    return _key_bits(certificate) > SMALL and has_costly_key(_encoded(certificate))


def _key_bits(certificate: Any) -> int:
    """Return the size of the key of an X509 pointer. An unreadable key counts as infinite."""
    key = lib.X509_get_pubkey(certificate)
    if key == _NULL:
        return sys.maxsize
    try:
        return int(lib.EVP_PKEY_bits(key))
    finally:
        lib.EVP_PKEY_free(key)


def _alpn_chooser(protocol: bytes) -> Any:
    """Return a callback that selects ``protocol`` if offered by the client, and otherwise fails."""
    chosen = ffi.new("unsigned char[]", protocol)
    entry = bytes([len(protocol)]) + protocol

    @ffi.callback(
        "int (*)(SSL *, unsigned char **, unsigned char *,"
        " const unsigned char *, unsigned int, void *)",
        error=lib.SSL_TLSEXT_ERR_ALERT_FATAL,
    )  # type: ignore[untyped-decorator]  # cffi has no types
    def choose(_ssl: Any, out: Any, out_length: Any, offered: Any, length: int, _arg: Any) -> int:
        names = ffi.buffer(offered, length)[:]
        at = 0
        while at < length:
            after = at + 1 + names[at]
            if names[at:after] == entry:
                out[0] = chosen
                out_length[0] = len(protocol)
                return int(lib.SSL_TLSEXT_ERR_OK)
            at = after
        return int(lib.SSL_TLSEXT_ERR_ALERT_FATAL)

    return choose


_ALPN_CHOOSERS: Final = {name: _alpn_chooser(name) for name in (b"http/1.1", b"h2")}


class TlsContext:
    """A TLS server context: version 1.2 or 1.3, any client certificate or none.

    Args:
        key: PKCS #8 DER of an EC or RSA private key.
        chain: DER certificates, the served leaf first.
        alpn: ``http/1.1`` or ``h2``. A client that offers only other protocols is refused. A
            client that offers no protocol is served unless ``required``.
        required: require a client certificate and a negotiated ``alpn``. Sessions do not resume,
            because such a client connects once.

    All sessions of a context must live on one thread, because they share buffers. Sockets are
    read into ``inbox``, and OpenSSL writes into ``buffer``. ``server_leaf`` is the DER of the
    server certificate.
    """

    def __init__(
        self,
        key: Secret,
        chain: Sequence[bytes],
        *,
        alpn: bytes = b"http/1.1",
        required: bool = False,
    ) -> None:
        self.insists_on: bytes | None = alpn if required else None
        self.server_leaf: Final = chain[0] if chain else b""
        self.buffer = ffi.new("char[]", BUFFER_BYTES)
        self.buffer_view = ffi.buffer(self.buffer)
        self.inbox = ffi.new("char[]", _INBOX_BYTES)
        self.inbox_view = ffi.buffer(self.inbox)
        self._thread: int | None = None
        self._server = _openssl_context(key, chain, alpn, required=required)

    def new_session(self) -> Any:
        """Return an OpenSSL session of a server. The last reference frees the session."""
        if self._thread is None:
            self._thread = threading.get_ident()
        if self._thread != threading.get_ident():
            raise BrokenError("a TLS context was used by two threads")
        native = lib.SSL_new(pointer(self._server))
        session = ffi.gc(_made(native), lib.SSL_free)
        lib.SSL_set_accept_state(session)
        return session


def _openssl_context(
    key: Secret, chain: Sequence[bytes], alpn: bytes, *, required: bool
) -> SSL.Context:
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.set_options(SSL.OP_CIPHER_SERVER_PREFERENCE | lib.SSL_OP_NO_RENEGOTIATION)
    # An idle connection then keeps no buffers of 34 KiB.
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)
    context.set_cipher_list(TLS12_CIPHERS)
    # No session cache: an entry contains the client's whole chain (up to 100 KiB), so 20,480
    # entries would be 2 GB. Clients store tickets instead, which resume in both versions.
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_session_id(secrets.token_bytes(32))
    context.set_timeout(_TICKET_SECONDS)
    # No certificate is trusted, so no chain is built, and no signatures of appended certificates
    # are checked. OpenSSL refuses a client's chain above 100 KiB (SSL_MAX_CERT_LIST_DEFAULT).
    context.set_verify_depth(0)
    native = pointer(context)
    # A ticket contains the client's chain. Two tickets for each connection cost a fifth of the
    # connection.
    if required:
        context.set_options(lib.SSL_OP_NO_TICKET)
    mode = lib.SSL_VERIFY_PEER | (lib.SSL_VERIFY_FAIL_IF_NO_PEER_CERT if required else 0)
    lib.SSL_CTX_set_verify(native, mode, _judge_chain)
    lib.SSL_CTX_set_alpn_select_cb(native, _ALPN_CHOOSERS[alpn], _NULL)
    # Some builds of OpenSSL set a callback of their own when SSLKEYLOGFILE is in the environment.
    lib.SSL_CTX_set_keylog_callback(native, _NULL)
    if lib.SSL_CTX_set1_curves_list(native, GROUPS) != 1:
        _clear_errors()
        raise BrokenError(
            f"this build of OpenSSL lacks one of the key-exchange groups {GROUPS.decode()}",
            hint=_COMPLETE_BUILD,
        )
    if lib.SSL_CTX_set1_sigalgs_list(native, SIGNATURES) != 1:
        _clear_errors()
        raise BrokenError(
            f"this build of OpenSSL lacks one of the signature algorithms {SIGNATURES.decode()}",
            hint=_COMPLETE_BUILD,
        )
    _install_identity(context, key, chain)
    return context


def _install_identity(context: SSL.Context, key: Secret, chain: Sequence[bytes]) -> None:
    """Install ``key`` and ``chain`` in ``context``.

    Raises ``BrokenError`` if the key does not match the first certificate, or is unusable.
    """
    try:
        certificates = [x509.load_der_x509_certificate(der) for der in chain]
        private = load_der_private_key(key.reveal(), None)
    except (ValueError, TypeError, x509.InvalidVersion):
        raise BrokenError("the TLS key or certificate cannot be read") from None
    if not certificates or not isinstance(private, EllipticCurvePrivateKey | RSAPrivateKey):
        raise BrokenError("TLS needs a certificate and an EC or RSA key")
    if private.public_key() != certificates[0].public_key():
        raise BrokenError("the TLS key does not belong to the served certificate")
    try:
        context.use_certificate(certificates[0])
        for certificate in certificates[1:]:
            context.add_extra_chain_cert(certificate)
        context.use_privatekey(private)
    except SSL.Error:
        raise BrokenError("OpenSSL refuses the TLS key or certificate") from None


def new_memory_bio() -> Any:
    """Return a memory BIO. The session that receives the BIO also frees it."""
    return _made(lib.BIO_new(lib.BIO_s_mem()))


def negotiated_protocol(session: Any) -> bytes:
    """Return the negotiated application protocol (ALPN) of an OpenSSL session, or empty bytes."""
    name, length = ffi.new("const unsigned char **"), ffi.new("unsigned int *")
    lib.SSL_get0_alpn_selected(session, name, length)
    return bytes(ffi.buffer(name[0], length[0])[:]) if length[0] else b""


def peer_leaf(session: Any) -> bytes | None:
    """Return the DER of the client certificate whose key signed the handshake, or None.

    A resumed session returns the certificate of its first handshake.
    """
    leaf = lib.SSL_get_peer_certificate(session)
    if leaf == _NULL:
        return None
    try:
        return _encoded(leaf)
    finally:
        lib.X509_free(leaf)


def has_refused_key(session: Any) -> bool:
    """Return whether the handshake failed because of a costly key of the client's certificate."""
    return bool(lib.SSL_get_verify_result(session) == _COSTLY)


def _encoded(certificate: Any) -> bytes:
    """Return the DER of an X509 pointer."""
    memory = lib.BIO_new(lib.BIO_s_mem())
    try:
        if memory == _NULL or lib.i2d_X509_bio(memory, certificate) != 1:
            raise MemoryError
        data = ffi.new("char **")
        length = _bio_length(memory, data)
        return bytes(ffi.buffer(data[0], length)[:])
    finally:
        lib.BIO_free(memory)
        _clear_errors()


def _made(pointer: Any) -> Any:
    """Return ``pointer``, made by OpenSSL. Raise ``MemoryError`` if it is NULL."""
    if pointer == _NULL:
        _clear_errors()
        raise MemoryError
    return pointer
