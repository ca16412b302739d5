"""A user's certificate and key: in PEM files, in a PKCS #12 file, or on a token."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from keyhouse.base.printable import printable
from keyhouse.base.secret import Secret
from keyhouse.base.user_files import read_file
from keyhouse.cli.options import token as tokens
from keyhouse.cli.options.context_option import context_for, not_applied
from keyhouse.cli.options.target import Target
from keyhouse.cli.parser import Option, OptionGroup, WrongUsageError

if TYPE_CHECKING:
    from keyhouse.client import ClientIdentity, PemIdentity, TokenIdentity


UserCertificate = Annotated[
    Path | None, Option("--cert", "-c", help="your certificate as a user of the manifest (PEM)")
]
UserKey = Annotated[Path | None, Option("--key", "-k", help="the private key of --cert (PEM)")]


class UserOption(OptionGroup, frozen=True, kw_only=True):
    """The options that name the user: certificate and key, PKCS #12 file, or token."""

    section = "User"

    cert: UserCertificate = None
    key: UserKey = None
    key_password: tokens.KeyPassword = None
    pkcs12: Annotated[
        Path | None,
        Option(
            "--pkcs12",
            help="file with certificate and key (.p12, .pfx), instead of --cert and --key",
        ),
    ] = None
    pkcs12_password: Annotated[
        Path | None,
        Option(
            "--pkcs12-password-file",
            help="file with the password of --pkcs12 in its first line; - for standard input"
            " (default: ask on the terminal)",
        ),
    ] = None
    pkcs11_config: tokens.TokenConfig = None
    pkcs11_key_id: tokens.TokenKeyId = ""
    pkcs11_key_label: tokens.TokenKeyLabel = ""
    pkcs11_cert_id: Annotated[
        str,
        Option(
            "--pkcs11-cert-id",
            metavar="HEX",
            help="your certificate's id on the token (default: the id and label of the key); --cert"
            " FILE replaces it",
        ),
    ] = ""
    pkcs11_cert_label: Annotated[
        str, Option("--pkcs11-cert-label", metavar="LABEL", help="your certificate's label")
    ] = ""

    def check(self, beside: Iterable[OptionGroup]) -> None:
        """Raise ``WrongUsageError`` unless the options or the context name exactly one user.

        ``beside`` has all option groups of the command. The ``Target`` in ``beside`` selects the
        context.
        """
        for each in beside:
            if isinstance(each, Target):
                self._resolve(each)

    def identity(self, target: Target) -> "ClientIdentity | PemIdentity | TokenIdentity":
        """Return the identity of the user, from the options or else from the context of ``target``.

        For an expired certificate, a warning goes to standard error. The coordinator accepts this
        certificate, because it compares only the bytes. Raises ``WrongUsageError`` unless exactly
        one user is named, and ``ClientSetupError`` for an unusable identity.
        """
        user = self._resolve(target)
        identity = _open(user)
        where = user.cert or user.pkcs12 or "on the token"
        _warn_if_expired(_certificate_of(identity), str(where))
        return identity

    def _resolve(self, target: Target) -> "UserOption":
        """Return the options of the user, from this group or else from the context of ``target``.

        The result names either two PEM files, or a PKCS #12 file, or a token. Raises
        ``WrongUsageError``.
        """
        user = self._of_context(target) if self._is_empty() else self
        if user.pkcs12 is None and user.pkcs12_password is not None:
            raise WrongUsageError.no_effect("--pkcs12-password-file", "use it with --pkcs12")
        if user.is_on_token():
            user.require_token()
            return user
        if user.pkcs12 is not None and (user.cert or user.key):
            raise WrongUsageError(
                "the options name two users: --pkcs12 excludes --cert and --key",
                hint="pass only --pkcs12, or only --cert with --key",
            )
        if user.pkcs12 is None and (user.cert is None or user.key is None):
            raise WrongUsageError(
                _missing(user),
                hint=not_applied(target.context, target.host)
                or "other ways: --pkcs12 FILE, --pkcs11-config FILE or --context NAME",
            )
        return user

    def _is_empty(self) -> bool:
        return not (self.cert or self.key or self.pkcs12 or self.is_on_token())

    def _of_context(self, target: Target) -> "UserOption":
        context = context_for(target.context, target.host)
        if context is None:
            return self
        cert, key, both, token = (
            Path(each) if each else None
            for each in (
                context.context.cert,
                context.context.key,
                context.context.pkcs12,
                context.context.pkcs11_config,
            )
        )
        user = msgspec.structs.replace(self, cert=cert, key=key, pkcs12=both)
        if context.context.user_is_on != "token":
            return user
        return msgspec.structs.replace(
            user,
            pkcs11_config=token,
            pkcs11_key_id=context.context.pkcs11_key_id,
            pkcs11_key_label=context.context.pkcs11_key_label,
        )

    def is_on_token(self) -> bool:
        """Return whether an option for a token is given."""
        return bool(
            self.pkcs11_config
            or self.pkcs11_key_id
            or self.pkcs11_key_label
            or self.pkcs11_cert_id
            or self.pkcs11_cert_label
        )

    def require_token(self) -> None:
        """Raise ``WrongUsageError`` unless the options name a key on a token, and no second key."""
        if self.key or self.pkcs12:
            key = "--key" if self.key else "--pkcs12"
            raise WrongUsageError(
                f"the options name two keys: the key of {key}, and a key on the token",
                hint=f"omit {key}, or omit the options that begin with --pkcs11",
            )
        tokens.named_token(self.pkcs11_config, self.pkcs11_key_id, self.pkcs11_key_label)
        if self.cert and (self.pkcs11_cert_id or self.pkcs11_cert_label):
            raise WrongUsageError(
                "--cert and the options of the token both name a certificate",
                hint="pass only one of --cert, --pkcs11-cert-id and --pkcs11-cert-label",
            )


def _missing(user: UserOption) -> str:
    if user.cert is None and user.key is None:
        return "no user: pass --cert and --key"
    return "no certificate: pass --cert" if user.cert is None else "no private key: pass --key"


def _open(user: UserOption) -> "ClientIdentity | PemIdentity | TokenIdentity":
    if user.pkcs11_config is not None:
        return _on_token(user, user.pkcs11_config)
    if user.cert is not None and user.key is not None:
        return _from_pem(user.cert, user.key, user.key_password)
    return _from_pkcs12(user)


def _certificate_of(user: "ClientIdentity | PemIdentity | TokenIdentity") -> bytes:
    certificate = user.certificate
    return certificate if isinstance(certificate, bytes) else certificate.read_bytes()


def _warn_if_expired(certificate: bytes, name: str) -> None:
    from cryptography import x509

    try:
        end = x509.load_pem_x509_certificate(certificate).not_valid_after_utc
    except ValueError:  # TLS reports the error of the certificate
        return
    if end < datetime.now(UTC):
        sys.stderr.write(
            f"warning: the user's certificate {printable(name)} expired on {end:%Y-%m-%d}"
            " (coordinators do not check the date)\n"
            "hint: create a new certificate, and add it to the manifest by an update\n"
        )


def _from_pem(
    certificate: Path, key: Path, password: Path | None
) -> "ClientIdentity | PemIdentity":
    """Return the user with a PEM file for ``certificate`` and for ``key``.

    ``password``: the file with the passphrase of the key, or None. The function tries certificate
    and key with OpenSSL, so an unusable file is an error before the first connection. Raises
    ``ClientSetupError`` and ``WrongUsageError``.
    """
    import ssl

    from keyhouse.client import ClientIdentity, read_pem

    identity: ClientIdentity | PemIdentity = ClientIdentity(certificate, key)
    if key.exists():
        pem = Secret(read_file(str(key)))
        passphrase = tokens.passphrase_of(key, pem, password)
        if passphrase is not None:
            with _naming(key):
                identity = read_pem(read_file(str(certificate)), pem, passphrase)
    identity.present(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    return identity


def _from_pkcs12(user: UserOption) -> "PemIdentity":
    from keyhouse.client import read_pkcs12

    content = Secret(read_file(str(user.pkcs12)))
    password = tokens.password_for(f"password of {user.pkcs12}", user.pkcs12_password)
    hint = "" if password else "pass --pkcs12-password-file FILE, with the password in line 1"
    with _naming(user.pkcs12, hint=hint):
        return read_pkcs12(content, password)


@contextmanager
def _naming(path: Path | None, *, hint: str = "") -> Iterator[None]:
    """Name the file ``path`` in a ``ClientSetupError`` of the block.

    ``hint``, if not "", replaces the hint of the error.
    """
    from keyhouse.client import ClientSetupError

    try:
        yield
    except ClientSetupError as error:
        raise ClientSetupError(f"{path}: {error.message}", hint=hint or error.hint) from None


def _on_token(user: UserOption, config: Path) -> "TokenIdentity":
    from keyhouse.client import read_token

    file = tokens.token_file(config)
    key_id = tokens.hex_id(user.pkcs11_key_id, "--pkcs11-key-id")
    certificate_id = tokens.hex_id(user.pkcs11_cert_id, "--pkcs11-cert-id")
    certificate = read_file(str(user.cert)) if user.cert else None
    return read_token(
        Path(file.path),
        token=file.token,
        pin=tokens.pin_for(file),
        label=user.pkcs11_key_label,
        key_id=key_id,
        certificate=certificate,
        certificate_label=user.pkcs11_cert_label,
        certificate_id=certificate_id,
    )
