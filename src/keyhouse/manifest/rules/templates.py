"""Which functions, members and types of secrets fit together in a template."""

from collections.abc import Mapping

from keyhouse.base.place import quoted
from keyhouse.manifest.templates import Call, Source
from keyhouse.wire.json_decoder import nearest
from keyhouse.wire.secret_types import SecretType

_ANYWHERE = {"pem", "hex", "base64"}
_IN_FILES = _ANYWHERE | {"raw"}
_IN_ENV = _ANYWHERE | {"string"}

_RESERVED = {
    "RootCA": {"Cert"},
    "MarbleCert": {"Cert", "Public", "Private"},
    "CoordinatorRoot": {"Cert"},
    "CoordinatorIntermediate": {"Cert"},
}


def call_problem(
    call: Call, *, in_env: bool, types: Mapping[str, SecretType | None]
) -> tuple[str, str] | None:
    """Return what is wrong with ``call`` and what to do, or None if it can work.

    ``types`` holds the type of each defined secret, None for one with an unknown type, of which
    nothing is said. The outcome is that of a dry run (manifest format, "Functions").
    """
    if call.function not in (_IN_ENV if in_env else _IN_FILES):
        return _wrong_function(call.function, in_env=in_env)
    if call.source is Source.MARBLERUN:
        return _reserved_problem(call)
    if is_undefined(call, types):
        return f"names the secret {quoted(call.name)}, which is not in Secrets", "define it there"
    secret_type = types[call.name]
    return None if secret_type is None else _secret_problem(call, secret_type)


def is_undefined(call: Call, types: Mapping[str, SecretType | None]) -> bool:
    """Tell whether ``call`` names a secret that is not among ``types``."""
    return call.source is not Source.MARBLERUN and call.name not in types


def _wrong_function(function: str, *, in_env: bool) -> tuple[str, str]:
    where, instead = ("Env", "string, hex or base64") if in_env else ("Files", "raw")
    return f"uses {function}, which is not available in {where}", f"use {instead}"


def _reserved_problem(call: Call) -> tuple[str, str] | None:
    members = _RESERVED.get(call.name)
    if members is None:
        problem = f"names {quoted(call.name)}, which is not in .MarbleRun"
        return problem, nearest(call.name, tuple(_RESERVED))
    if call.member not in members:
        return f"reads .MarbleRun.{call.name}.{call.member}, which is always empty", "use .Cert"
    if call.function == "string":
        return _STRING
    return None


_STRING = "uses string for something else than a bare secret of type plain", "use hex or base64"


def _secret_problem(call: Call, secret_type: SecretType) -> tuple[str, str] | None:
    if call.function == "string" and (secret_type is not SecretType.PLAIN or call.member):
        return _STRING
    if call.function == "pem" and not call.member:
        return "uses pem for a bare secret", "add .Cert, .Public or .Private"
    if call.member == "Cert" and not secret_type.is_certificate:
        return (
            f"reads the certificate of {quoted(call.name)}, which is a {secret_type} and has none",
            "leave .Cert out",
        )
    return None
