"""The command line of a measured process: ``keyhouse serve`` and ``keyhouse run``."""

import argparse
from collections.abc import Sequence
from typing import NamedTuple

from keyhouse.base.errors import RefusedError
from keyhouse.base.version import VERSION

__all__ = ["Setting", "SettingMisusedError", "SettingRefusedError", "read_flags"]


class Setting(NamedTuple):
    """One setting, as the reference shows it."""

    flag: str
    kind: str  # "measured" or "host"
    default: str
    help: str
    variables: tuple[str, ...] = ()  # in the order in which they are read; empty counts as unset
    is_switch: bool = False


class SettingRefusedError(RefusedError):
    """A setting that cannot be, or that may not come from where it came from."""

    code = "setting"


class SettingMisusedError(RefusedError):
    """A command line that cannot be read, or lacks what is required: exit code 2."""

    code = "usage"


def read_flags(
    settings: Sequence[Setting], arguments: Sequence[str], *, usage: str, about: str, word: str = ""
) -> dict[str, object]:
    """Return the value of each flag by its name in snake case; None: not given.

    ``usage`` begins with the command. ``word``: what to do about a word that belongs to no flag.
    Raises ``SettingMisusedError``. ``--help`` and ``--version`` end the process.
    """
    name = " ".join(usage.split()[:2])
    parser = argparse.ArgumentParser(
        prog=name, usage=usage, description=about, allow_abbrev=False, exit_on_error=False
    )
    parser.add_argument("--version", action="version", version=VERSION, help="print the version")
    for setting in settings:
        variables = f" [{', '.join(setting.variables)}]" if setting.variables else ""
        default = f" (default: {setting.default})" if setting.default else ""
        text = f"{setting.help}{default}{variables}"
        if setting.is_switch:
            parser.add_argument(setting.flag, action="store_true", help=text)
        else:
            parser.add_argument(setting.flag, metavar="VALUE", help=text)
    try:
        given, others = parser.parse_known_args(arguments)
    except argparse.ArgumentError as error:  # all that can be wrong with a flag that there is
        flag = error.argument_name or ""
        takes_value = any(each.flag == flag and not each.is_switch for each in settings)
        wrong = "needs a value" if takes_value else "takes no value"
        raise SettingMisusedError(f"{flag} {wrong}", hint=f"{name} --help") from None
    if others:
        raise _unknown(name, others[0], [setting.flag for setting in settings], word)
    return vars(given)


def _unknown(name: str, given: str, flags: Sequence[str], word: str) -> SettingMisusedError:
    """Return the error for a word that is no flag. Its value, behind ``=``, is not shown."""
    from difflib import get_close_matches

    flag = given.partition("=")[0]
    if not flag.startswith("-"):
        return SettingMisusedError(f"unexpected argument {given!r}", hint=word or f"{name} --help")
    close = get_close_matches(flag, flags, n=1)
    hint = f"did you mean {close[0]}?" if close else f"{name} --help lists all settings"
    return SettingMisusedError(f"unknown setting {flag}", hint=hint)
