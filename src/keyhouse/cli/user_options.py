"""Who calls: the options that name a user's certificate and key, wherever they are kept."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from keyhouse.cli.bundles import Bundle
from keyhouse.cli.context_chosen import chosen_context
from keyhouse.cli.password import password_for
from keyhouse.cli.talk import read_file
from keyhouse.cli.target import Target
from keyhouse.cli.usage import WrongUsage

if TYPE_CHECKING:
    from keyhouse.client import UserIdentity

__all__ = ["CertificateFile", "KeyFile", "User"]

CertificateFile = Annotated[
    Path, typer.Option("--cert", "-c", metavar="FILE", help="your certificate as a user (PEM)")
]
KeyFile = Annotated[
    Path, typer.Option("--key", "-k", metavar="FILE", help="its private key (PEM, not encrypted)")
]


class User(Bundle, frozen=True, kw_only=True):
    """A user of the manifest, as it was typed: PEM files, or a PKCS #12 file."""

    cert: Annotated[
        Path | None,
        typer.Option("--cert", "-c", metavar="FILE", help="your certificate as a user (PEM)"),
    ] = None
    key: Annotated[
        Path | None,
        typer.Option("--key", "-k", metavar="FILE", help="its private key (PEM, not encrypted)"),
    ] = None
    pkcs12: Annotated[
        Path | None,
        typer.Option(
            "--pkcs12", metavar="FILE", help="both in one file (.p12, .pfx), instead of the two"
        ),
    ] = None
    pkcs12_password: Annotated[
        Path | None,
        typer.Option(
            "--pkcs12-password-file",
            metavar="FILE",
            help="its password: the first line; - for standard input (default: asked for)",
        ),
    ] = None
    pkcs11_config: Annotated[str, typer.Option("--pkcs11-config", hidden=True)] = ""
    pkcs11_key_id: Annotated[str, typer.Option("--pkcs11-key-id", hidden=True)] = ""
    pkcs11_key_label: Annotated[str, typer.Option("--pkcs11-key-label", hidden=True)] = ""
    pkcs11_cert_id: Annotated[str, typer.Option("--pkcs11-cert-id", hidden=True)] = ""
    pkcs11_cert_label: Annotated[str, typer.Option("--pkcs11-cert-label", hidden=True)] = ""

    def check(self, beside: Iterable[Bundle]) -> None:
        """Raise ``WrongUsage`` if no user is named."""
        for each in beside:
            if isinstance(each, Target):
                self._named(each)

    def identity(self, target: Target) -> "UserIdentity":
        """Return the user, of the options or else of the context.

        Raises ``WrongUsage`` if there is none, or two; ``ClientSetup`` if it cannot be used.
        """
        from keyhouse.client import ClientIdentity

        found = self._named(target)
        if found.cert is not None and found.key is not None:
            return ClientIdentity(found.cert, found.key)
        return _from_pkcs12(found)

    def _named(self, target: Target) -> "User":
        """Return a user with either two PEM files or one PKCS #12 file."""
        self._refuse_tokens()
        found = self._of_context(target) if self._is_empty() else self
        if found.pkcs12 is not None and (found.cert or found.key):
            raise WrongUsage("there are two of you", hint="--pkcs12, or --cert with --key")
        if found.pkcs12 is None and (found.cert is None or found.key is None):
            raise WrongUsage(
                "it is not said who you are",
                hint="--cert FILE with --key FILE, or --pkcs12 FILE, or a --context that has them",
            )
        return found

    def _is_empty(self) -> bool:
        return self.cert is self.key is self.pkcs12 is None

    def _of_context(self, target: Target) -> "User":
        named = chosen_context(target.context, target.host)
        if named is None:
            return self
        cert, key, both = (
            Path(each) if each else None
            for each in (named.context.cert, named.context.key, named.context.pkcs12)
        )
        return msgspec.structs.replace(self, cert=cert, key=key, pkcs12=both)

    def _refuse_tokens(self) -> None:
        if any(
            (
                self.pkcs11_config,
                self.pkcs11_key_id,
                self.pkcs11_key_label,
                self.pkcs11_cert_id,
                self.pkcs11_cert_label,
            )
        ):
            raise WrongUsage(
                "a user's key cannot be on a PKCS #11 token: Python's TLS has no way to ask one",
                hint="--cert with --key, or --pkcs12; keys for a recovery can be on a token",
            )


def _from_pkcs12(user: User) -> "UserIdentity":
    from keyhouse.client import read_pkcs12
    from keyhouse.wire.secret import Secret

    content = Secret(read_file(str(user.pkcs12)))
    return read_pkcs12(content, password_for(f"password of {user.pkcs12}", user.pkcs12_password))
