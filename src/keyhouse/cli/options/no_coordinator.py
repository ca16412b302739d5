"""The error about a command without a coordinator, with the command to start a coordinator."""

from pathlib import Path
from typing import Final

from keyhouse.cli.options.context_option import context_for, known_contexts
from keyhouse.cli.parser import WrongUsageError

_ADDRESS: Final = "pass HOST and --attestation"
_FOLDER: Final = Path("keyhouse-dev")  # the default of ``keyhouse dev --folder``


def no_coordinator(option: str) -> WrongUsageError:
    """Return the error for a command that has neither HOST nor a context with an address.

    ``option`` is the value of ``--context``.
    """
    context = context_for(option)
    if context is not None:
        return WrongUsageError(
            f"the command has no coordinator: the context {context.name!r} has no address",
            hint="pass HOST, or add the address with keyhouse context add NAME --replace",
        )
    if option:
        return WrongUsageError(
            f"the command has no coordinator: --context {option} means no context", hint=_ADDRESS
        )
    stored = [name for name in known_contexts() if name != "none"]
    if stored:
        return WrongUsageError(
            "the command has no coordinator: no context is in use",
            hint=f"use a context: keyhouse context use {stored[0]}"
            if len(stored) == 1
            else "use a context: keyhouse context use NAME; keyhouse context list lists the"
            " contexts",
        )
    before = (
        " (its state keyhouse-dev/ is in this directory)" if (_FOLDER / "data").is_dir() else ""
    )
    return WrongUsageError(
        "the command has no coordinator: no context is in use",
        hint=f"start a coordinator: keyhouse dev{before}; or {_ADDRESS}",
    )
