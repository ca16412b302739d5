"""Settings of ``keyhouse serve`` and ``run``: flags first, then environment variables.

Each setting has a class (``docs/reference/settings.md``). *Measured* settings decide about trust.
They come from the command line, which the platform measures, and never from the environment. *Host*
settings may affect availability, never confidentiality or integrity.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from keyhouse.base.errors import RefusedError
from keyhouse.base.version import VERSION


def file(value: str, _source: str) -> Path | None:
    """Return the path in ``value``; None for an empty value. Parses settings that name a file."""
    return Path(value) if value else None


_CALLED: Final = {"sgx": "gramine", "sev": "snp", "sev-snp": "snp"}
"""Usual names of platforms, and our words for ``--platform``."""


class Setting(msgspec.Struct, frozen=True):
    """A setting of ``keyhouse serve`` or ``run``, with its text for help and reference."""

    kind: str  # "measured" or "host"
    flag: str
    help: str
    default: str = ""
    choices: tuple[str, ...] = ()  # empty: all values
    is_switch: bool = False  # takes no value
    variables: tuple[str, ...] = ()  # in this order; an empty variable counts as unset
    read: Callable[[str, str], Any] = lambda value, _source: value
    """Parses a value. The second argument names the source of the value, for errors."""

    @property
    def name(self) -> str:
        """The name of this setting among the read values: ``--data-dir`` has ``data_dir``."""
        return self.flag.removeprefix("--").replace("-", "_")


measured = partial(Setting, "measured")
host = partial(Setting, "host")


class SettingRefusedError(RefusedError):
    """A setting has an invalid value or an inadmissible source, such as the environment."""

    code = "setting"


class SettingMisusedError(RefusedError):
    """The command line cannot be parsed or lacks a required word: exit code 2."""

    code = "usage"


def read_flags(
    settings: Sequence[Setting], arguments: Sequence[str], *, usage: str, about: str, word: str = ""
) -> dict[str, object]:
    """Return a value for each setting, by the setting's name, from the flags in ``arguments``.

    If the flag is missing, the value is None, or False for a switch. ``usage``: the first line of
    ``--help``; its first two words are the command. ``about``: the description in ``--help``.
    ``word``: the hint for a word that belongs to no flag. Raises ``SettingMisusedError``.
    ``--help`` and ``--version`` end the process.
    """
    name = " ".join(usage.split()[:2])
    known = {each.flag: each for each in settings}
    found: dict[str, object] = {each.name: False if each.is_switch else None for each in settings}
    others = []
    words = list(arguments)
    while words:
        given = words.pop(0)
        setting = known.get(given.partition("=")[0])
        if given in {"-h", "--help"}:
            _show_help(settings, name, usage, about)
        elif given == "--version":
            sys.stdout.write(f"{VERSION}\n")
            sys.exit(0)
        elif setting is None:
            others.append(given)
            if given == "--":  # the words behind it are not flags
                break
        elif (value := _given_value(setting, given, words)) is None:
            wrong = "takes no value" if setting.is_switch else "needs a value"
            raise SettingMisusedError(f"{setting.flag} {wrong}", hint=f"see {name} --help")
        else:
            found[setting.name] = value
    if others:
        raise _unknown(name, others[0], list(known), word)
    return found


def _given_value(setting: Setting, given: str, words: list[str]) -> object:
    """Return the value of the flag ``given``: the text after ``=``, or the first of ``words``.

    ``words`` follow the flag on the command line. If the first word is the value, the function
    removes this word. The value of a switch is True. Returns None if the value is missing, and for
    a switch with a value.
    """
    _, has_value, value = given.partition("=")
    if setting.is_switch:
        return None if has_value else True
    if has_value:
        return value
    return words.pop(0) if words and not _is_flag(words[0]) else None


def _is_flag(word: str) -> bool:
    """Return whether ``word`` is a flag, and neither a negative number nor a text with spaces."""
    is_number = word[1:].replace(".", "", 1).isdecimal()
    return word.startswith("-") and word != "-" and not is_number and " " not in word


def _show_help(settings: Sequence[Setting], name: str, usage: str, about: str) -> NoReturn:
    """Print ``usage``, the description ``about`` and all settings, and end the process.

    ``name``: the command, such as ``keyhouse serve``.
    """
    from argparse import ArgumentParser  # slower than the parser of flags

    parser = ArgumentParser(prog=name, usage=usage, description=about)
    parser.add_argument("--version", action="version", help="print the version")
    for setting in settings:
        variables = f" [{', '.join(setting.variables)}]" if setting.variables else ""
        default = f" (default: {setting.default})" if setting.default else ""
        text = f"{setting.help}{default}{variables}"
        if setting.is_switch:
            parser.add_argument(setting.flag, action="store_true", help=text)
        else:
            parser.add_argument(setting.flag, metavar="VALUE", help=text)
    parser.print_help()
    sys.exit(0)


def read_values(
    settings: Sequence[Setting], given: Mapping[str, Any], environment: Mapping[str, str]
) -> dict[str, Any]:
    """Return the parsed value of each setting by its name. Flags have precedence over variables.

    ``given`` is the result of ``read_flags``. Raises ``SettingRefusedError``.
    """
    return {
        each.name: given[each.name] if each.is_switch else _read(each, given, environment)
        for each in settings
    }


def environment_value(setting: Setting, environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the value of a ``setting`` whose flag is missing, and the name of the source.

    The source is the first variable of ``setting`` with a value. If no variable has a value, the
    value is the default, and the source is the name of the flag.
    """
    for name in setting.variables:
        if environment.get(name):
            return environment[name], name
    return setting.default, setting.flag


def _read(setting: Setting, given: Mapping[str, Any], environment: Mapping[str, str]) -> Any:
    flag = given[setting.name]
    if flag == "":
        default = f" {setting.default}" if setting.default else ""
        raise SettingRefusedError(
            f"{setting.flag} is empty; a value is expected",
            hint=f"add a value, or omit {setting.flag} for the default{default}",
        )
    value, source = (flag, setting.flag) if flag else environment_value(setting, environment)
    if setting.choices and value not in setting.choices:
        named = f" ({value} is called {_CALLED[value]} here)" if value in _CALLED else ""
        raise SettingRefusedError(
            f"{source} has an invalid value",
            hint=f"use one of these values: {', '.join(setting.choices)}{named}",
        )
    return setting.read(value, source)


def _unknown(name: str, given: str, flags: Sequence[str], word: str) -> SettingMisusedError:
    """Return the error for ``given``, an unknown flag, or a word that belongs to no flag.

    The error does not show the value behind ``=``. ``name``: the command. ``flags``: all known
    flags. ``word``: the hint for a word.
    """
    from difflib import get_close_matches

    flag = given.partition("=")[0]
    if not flag.startswith("-"):
        return SettingMisusedError(
            f"unexpected argument {given!r}", hint=word or f"see {name} --help"
        )
    close = get_close_matches(flag, flags, n=1)
    hint = f"did you mean {close[0]}?" if close else f"see {name} --help for all settings"
    return SettingMisusedError(f"unknown setting {flag}", hint=hint)
