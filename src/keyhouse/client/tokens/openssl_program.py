"""The ``openssl`` program, for keys that only OpenSSL's engine can reach: TLS, and signatures.

The program carries one TLS connection. Its standard input and output are one socket with the plain
bytes. A second socket has its messages about the handshake. These properties hold:

1. The peer owns the pinned certificate. OpenSSL compares the leaf with this certificate byte by
   byte, as a TLSA record "3 0 0" (RFC 6698: end entity, full certificate, exact match). OpenSSL
   loads no store of trusted certificates. Trust in the root with a verify depth of 0 would not be
   enough: any certificate from the root would pass. With such a record OpenSSL ignores dates, so
   this module checks the dates.
2. The program sends no input before the end of the handshake. The option ``-nocommands`` is set, so
   no letter of the input is a command for the program.
3. The messages of the program decide only the class of the error. A forged message gains nothing.
4. The PIN is in a file without a name (``memfd``), which the program inherits. The PIN is neither
   among the arguments nor in the environment. The program has no terminal for a prompt, and leaves
   no core file.
5. The program ends with the connection: closing the connection kills the program. If this process
   dies, the program reaches the end of its input and exits.
"""

import ipaddress
import os
import resource
import shutil
import socket
import subprocess
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from keyhouse.client.errors import ClientSetupError, TrustError
from keyhouse.client.identity import path_of, unnamed_file
from keyhouse.client.tokens.identity import TokenIdentity
from keyhouse.client.tokens.session import LOOK
from keyhouse.wire.address import Address

ESTABLISHED: Final = b"CONNECTION ESTABLISHED\n"
LONGEST_MESSAGES: Final = 1 << 16  # bytes, chosen: error messages of openssl are shorter
# libp11 0.4.21 prints the return value of PKCS #11 instead of a text: CKR_PIN_INCORRECT (0xA0) and
# CKR_PIN_LOCKED (0xA4), PKCS #11 v3.1, section 5.
_PIN_REFUSED: Final = ("Login failed", "ERR_CKR_error:reason(160)", "ERR_CKR_error:reason(164)")
# A placeholder, so that nobody looks up DNS records.
_NO_NAME: Final = "coordinator.invalid"
_OPTIONS: Final = (
    *("-brief", "-nocommands", "-alpn", "http/1.1"),
    *("-no-CAfile", "-no-CApath", "-no-CAstore"),
    *("-min_protocol", "TLSv1.2", "-no_renegotiation", "-no_ticket"),
    *("-verify", "1", "-verify_return_error", "-dane_ee_no_namechecks"),
    *("-engine", "pkcs11", "-keyform", "engine"),
)
# In bytes. With 0, the kernel would still pipe the core to a program: see core(5).
_NO_CORE: Final = (1, 1)
_STRANGER: Final = "the peer's certificate is not the verified root"
_UNSIGNED: Final = "the token does not sign; allow the key to sign: set CKA_SIGN"
_MESSAGES: Final = (
    ("verify error:num=", _STRANGER),
    ("certificate verify failed", _STRANGER),
    *(
        (each, "the token rejects the PIN; check the PIN: a token may lock after a few tries")
        for each in _PIN_REFUSED
    ),
    (
        "No matching initialized token",
        "there is no token with this label; check the label, and that the token is plugged in",
    ),
    ("key was not found", f"the token has no such private key; {LOOK}"),
    (
        "does not match the certificate",
        "the user's certificate is not for the key on the token; pass the certificate of this key",
    ),
    (
        "Unable to load module",
        "the token's PKCS #11 library cannot be loaded; check the path of the library",
    ),
    (
        "nvalid engine",
        "OpenSSL has no engine for tokens; install libengine-pkcs11-openssl (Debian)",
    ),
    (
        "-help for summary",
        "keys on tokens need OpenSSL 3 as the program openssl; install OpenSSL 3",
    ),
    # libp11 0.4.21 does not name the cause.
    (
        "PKCS11_get_private_key returned NULL",
        "the private key cannot be used; check the names of token and key, and the library's path",
    ),
    (
        "client certificate",
        "the user's certificate, or its key, cannot be used; check that both belong together",
    ),
    (":pkcs11 engine:", _UNSIGNED),
    (":PKCS#11 module:", _UNSIGNED),
    (":libp11:", _UNSIGNED),
)
"""Phrases of the program, with problem and hint. The first phrase in the output decides."""


class TokenTls(msgspec.Struct, frozen=True):
    """A user with a key on a token, and the only accepted certificate of the peer (DER)."""

    identity: TokenIdentity
    root_der: bytes


class OpensslProgram:
    """A running ``openssl``. The socket ``plain`` carries the plain bytes of the connection.

    The socket ``messages`` carries the program's texts for people.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], plain: socket.socket, messages: socket.socket
    ) -> None:
        self._process = process
        self.plain: Final = plain
        self.messages: Final = messages

    def end(self) -> None:
        """End the program, unless it has already ended, and release its resources."""
        self.plain.close()
        self.messages.close()
        self._process.kill()
        self._process.wait()


def start(tls: TokenTls, where: Address) -> OpensslProgram:
    """Start the program with a TLS connection to ``where``.

    Raises ``ClientSetupError``, and ``TrustError`` if the dates of the pinned certificate exclude
    the current time.
    """
    path = _openssl()
    _require_current(tls.root_der)
    with ExitStack() as own_ends, ExitStack() as inherited:
        plain, its_plain = socket.socketpair()
        messages, its_messages = socket.socketpair()
        for ours, its in ((plain, its_plain), (messages, its_messages)):
            own_ends.enter_context(ours)
            inherited.enter_context(its)
        certificate = inherited.enter_context(unnamed_file(tls.identity.certificate))
        pin = inherited.enter_context(unnamed_file(tls.identity.pin.reveal()))
        process = subprocess.Popen(  # noqa: S603 the values are options' values, never options
            [path, "s_client", *_arguments(tls, where, path_of(certificate), path_of(pin))],
            stdin=its_plain.fileno(),
            stdout=its_plain.fileno(),
            stderr=its_messages.fileno(),
            pass_fds=(certificate, pin),
            env=_environment(tls.identity),
            # Without a terminal, and without the Ctrl-C of this terminal.
            start_new_session=True,
        )
        own_ends.pop_all()
    _forbid_core_file(process)
    return OpensslProgram(process, plain, messages)


def _openssl() -> str:
    """Return the path of the program ``openssl``. Raises ``ClientSetupError`` without it."""
    path = shutil.which("openssl")
    if path is None:
        raise ClientSetupError(
            "keys on tokens need the program openssl",
            hint="install the program (Debian: apt install openssl)",
        )
    return path


def rejects_pin(messages: bytes) -> bool:
    """Return whether the token has rejected the PIN, by the messages of the program."""
    return any(each.encode("ascii") in messages for each in _PIN_REFUSED)


def failure(messages: bytes) -> TrustError | ClientSetupError | None:
    """Return the error for the messages of a failed program, or None for a plain disconnection.

    The error contains no message of the program, because a message may contain a secret.
    """
    text = messages.decode(errors="replace")
    meant = next((meaning for words, meaning in _MESSAGES if words in text), None)
    if meant is None:
        return None
    if meant is _STRANGER:
        return TrustError(meant)
    problem, _, hint = meant.partition("; ")
    return ClientSetupError(problem, hint=hint)


def _arguments(tls: TokenTls, where: Address, certificate: str, pin: str) -> list[str]:
    return [
        *_OPTIONS,
        *("-connect", str(where)),
        *("-dane_tlsa_domain", _name(where.host)),
        *("-dane_tlsa_rrdata", f"3 0 0 {tls.root_der.hex()}"),
        *("-cert", certificate),
        *("-key", tls.identity.uri(pin)),
    ]


def _name(host: str) -> str:
    """Return the server name of ``host`` for the handshake; for IP addresses a placeholder."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host
    return _NO_NAME


def _environment(identity: TokenIdentity) -> dict[str, str]:
    """Return the environment of the program: all variables of this process but ``SSLKEYLOGFILE``.

    The token's library may read variables of its own.
    """
    variables = {name: value for name, value in os.environ.items() if name != "SSLKEYLOGFILE"}
    return {**variables, "PKCS11_MODULE_PATH": str(identity.module), "LC_ALL": "C"}


def _require_current(root_der: bytes) -> None:
    root = x509.load_der_x509_certificate(root_der)
    if not root.not_valid_before_utc <= datetime.now(UTC) <= root.not_valid_after_utc:
        raise TrustError(
            "the verified root certificate is not valid at this time",
            hint="check the clock of this machine (keyhouse doctor)",
        )


def _forbid_core_file(process: subprocess.Popen[bytes]) -> None:
    """Forbid a core file, which would contain the PIN: libraries of tokens may crash."""
    # The program has ended.
    with suppress(ProcessLookupError):
        resource.prlimit(process.pid, resource.RLIMIT_CORE, _NO_CORE)


# Seconds: a token may wait for a touch.
_LONGEST: Final = 60.0
_PSS: Final = (
    *("-sigopt", "rsa_padding_mode:pss"),
    *("-sigopt", "rsa_pss_saltlen:32"),
    *("-sigopt", "rsa_mgf1_md:sha256"),
)


def sign_on_token(identity: TokenIdentity, certificate: bytes, message: bytes) -> bytes:
    """Return the signature over ``message`` by a key on a token, the key of ``certificate`` (DER).

    The signature is RSA-PSS with a salt of 32 bytes, or ECDSA in DER, with SHA-256. Raises
    ``ClientSetupError``.
    """
    is_rsa = isinstance(x509.load_der_x509_certificate(certificate).public_key(), RSAPublicKey)
    with unnamed_file(identity.pin.reveal()) as pin:
        process = subprocess.Popen(  # noqa: S603 the values are options' values, never options
            [
                *(_openssl(), "dgst", "-sha256", "-engine", "pkcs11", "-keyform", "engine"),
                *("-sign", identity.uri(path_of(pin)), *(_PSS if is_rsa else ())),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(pin,),
            env=_environment(identity),
            # Without a terminal, and without the Ctrl-C of this terminal.
            start_new_session=True,
        )
        _forbid_core_file(process)
        try:
            signature, messages = process.communicate(message, _LONGEST)
        # This includes Ctrl-C, which does not reach the program.
        except BaseException as error:
            process.kill()
            process.communicate()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise ClientSetupError(
                "the token does not answer", hint="check that the token is plugged in"
            ) from None
    if process.returncode or not signature:
        raise failure(messages) or ClientSetupError(
            "the token does not sign", hint="allow the key to sign: set CKA_SIGN"
        )
    return signature
