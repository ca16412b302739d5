"""A starting manifest, asked for step by step on a terminal."""

from collections.abc import Callable
from typing import Any, TypeVar

import typer

from keyhouse.base.errors import KeyhouseError
from keyhouse.base.process.error_text import error_text
from keyhouse.cli.manifest.template_parts import Parts, package_of, pem_of, secret_of

__all__ = ["ask_for_parts"]

T = TypeVar("T")


def ask_for_parts() -> Parts:
    """Return what was answered; a wrong answer is asked for again. Questions go to stderr."""
    package = _ask("Package: a name for the program that may run", "app")
    identity = _answered("Its UniqueID (64 hex digits; empty: by its signer)", _identity)
    parts = Parts(packages={package: identity})
    while name := _ask(
        "Marble: a name for a workload type that runs it" if not parts.marbles else "Another one",
        "web" if not parts.marbles else "",
    ):
        parts.marbles[name] = package
    _each(parts.secrets, "Secret", "Its type", secret_of, "symmetric-key")
    _each(
        parts.users, "User", "File with the certificate", lambda path: pem_of(path, "CERTIFICATE")
    )
    _each(
        parts.recovery_keys,
        "Holder of a recovery key",
        "File with the public RSA key",
        lambda path: pem_of(path, "PUBLIC KEY"),
    )
    return parts


def _each(
    made: dict[str, T], what: str, question: str, read: Callable[[str], T], default: str = ""
) -> None:
    """Ask for names until an empty one, and for what each stands for."""
    while name := _ask(f"{what}: a name (empty: no more)", ""):
        made[name] = _answered(f"  {question}", read, default)


def _identity(answer: str) -> dict[str, Any]:
    if answer:
        return package_of(answer)
    signer = _ask("  SignerID (64 hex digits)", "")
    product, version = _ask("  ProductID", "1"), _ask("  SecurityVersion, at least", "1")
    return package_of(f"signer:{signer},product:{product},version:{version}")


def _answered(question: str, read: Callable[[str], T], default: str = "") -> T:
    while True:
        try:
            return read(_ask(question, default))
        except KeyhouseError as error:
            typer.echo(error_text(error), err=True, nl=False)


def _ask(question: str, default: str) -> str:
    answer: str = typer.prompt(question, default=default, show_default=bool(default), err=True)
    return answer.strip()
