"""The parameters of a workload: files, variables, arguments; checked before use."""

from collections.abc import Mapping
from typing import Final

import msgspec

from keyhouse.base.secret import Secret
from keyhouse.launcher.errors import AnswerUnreadableError, LaunchRefusedError

TRANSPARENT_TLS: Final = "MARBLE_TTLS_CONFIG"
_LONGEST_NAME: Final = 100  # characters of a name in an error, chosen: one line of a terminal


class Delivered(msgspec.Struct, frozen=True):
    """The delivered parameters. Every value may be a secret."""

    files: Mapping[str, Secret]  # path: content
    env: Mapping[str, Secret]  # name: value
    argv: tuple[str, ...]  # complete, argv[0] first; empty: not in the manifest


def check_parameters(
    files: Mapping[str, bytes], env: Mapping[str, bytes], argv: tuple[str, ...]
) -> Delivered:
    """Return the delivered parameters if a program can receive them unchanged.

    Raises:
        LaunchRefusedError: the variable ``MARBLE_TTLS_CONFIG`` is delivered. The program expects
            that the runtime wraps its connections in TLS. Without such a runtime, the program would
            send plaintext. Source: manifest reference, "TLS (transparent TLS)".
        AnswerUnreadableError: no process can receive the name or value of a parameter.
    """
    if TRANSPARENT_TLS in env:
        raise LaunchRefusedError(
            "the manifest gives this workload TLS tags, but the launcher does not wrap connections",
            hint="remove TLS from the marble, and let the program use TLS with its certificate from"
            " MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN and MARBLE_PREDEFINED_PRIVATE_KEY",
        )
    for name, value in env.items():
        if not name or "=" in name or "\0" in name:
            raise _unusable(f"{_quoted(name)} is not a valid name of a variable")
        if b"\0" in value:
            raise _unusable(f"the variable {_quoted(name)} has a zero byte in its value")
    if any("\0" in argument for argument in argv):
        raise _unusable("an argument has a zero byte")
    if argv and not argv[0]:
        raise _unusable("the first argument, the program's name, is empty")
    return Delivered(
        {path: Secret(content) for path, content in files.items()},
        {name: Secret(value) for name, value in env.items()},
        argv,
    )


def _quoted(name: str) -> str:
    return ascii(name[:_LONGEST_NAME])


def _unusable(problem: str) -> AnswerUnreadableError:
    return AnswerUnreadableError(
        f"the delivered parameters are unusable: {problem}",
        hint="correct the Parameters of this marble type in the manifest",
    )
