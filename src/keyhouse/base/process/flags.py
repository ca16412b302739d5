"""Settings of a measured process, ``keyhouse serve`` or ``run``: flags first, then variables.

Each setting has a class (security rules, "The host"). *Measured* settings decide what is trusted:
they come from the command line, which the platform measures, and never from the environment.
*Host* settings may cost availability, never confidentiality or integrity.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from keyhouse.base.errors import RefusedError
from keyhouse.base.version import VERSION


def file(value: str, _source: str) -> Path | None:
    """Return the path that a setting names; None: it has no value."""
    return Path(value) if value else None


class Setting(msgspec.Struct, frozen=True):
    """One setting, as the reference shows it."""

    kind: str  # "measured" or "host"
    flag: str
    help: str
    default: str = ""
    choices: tuple[str, ...] = ()  # empty: any value
    is_switch: bool = False  # a flag without a value
    variables: tuple[str, ...] = ()  # in the order in which they are read; empty counts as unset
    read: Callable[[str, str], Any] = lambda value, _source: value
    """Returns what a value means. Its second argument is what it comes from, for the error."""

    @property
    def name(self) -> str:
        """Return the flag in snake case."""
        return self.flag.removeprefix("--").replace("-", "_")


measured = partial(Setting, "measured")
host = partial(Setting, "host")


class SettingRefusedError(RefusedError):
    """A setting with an invalid value, or that may not come from where it came from."""

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
            if given == "--":  # what is behind it is no flag
                break
        elif (value := _given_value(setting, given, words)) is None:
            wrong = "takes no value" if setting.is_switch else "needs a value"
            raise SettingMisusedError(f"{setting.flag} {wrong}", hint=f"{name} --help")
        else:
            found[setting.name] = value
    if others:
        raise _unknown(name, others[0], list(known), word)
    return found


def _given_value(setting: Setting, given: str, words: list[str]) -> object:
    """Return what the word ``given`` sets: behind ``=``, or the first of ``words``, which it takes.

    True for a switch; None: the value is missing, or one too many.
    """
    _, has_value, value = given.partition("=")
    if setting.is_switch:
        return None if has_value else True
    if has_value:
        return value
    return words.pop(0) if words and not _is_flag(words[0]) else None


def _is_flag(word: str) -> bool:
    """Tell whether ``word`` is a flag to everybody: no negative number and no text with spaces."""
    is_number = word[1:].replace(".", "", 1).isdecimal()
    return word.startswith("-") and word != "-" and not is_number and " " not in word


def _show_help(settings: Sequence[Setting], name: str, usage: str, about: str) -> NoReturn:
    """Print what the settings are, and end the process."""
    from argparse import ArgumentParser  # it takes longer than reading the flags of a start

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
    """Return what each setting means by its name; a flag has precedence over variables.

    ``given``: what ``read_flags`` returned. Raises ``SettingRefusedError``.
    """
    return {
        each.name: given[each.name] if each.is_switch else _read(each, given, environment)
        for each in settings
    }


def environment_value(setting: Setting, environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the value of ``setting`` without its flag, and what it comes from."""
    for name in setting.variables:
        if environment.get(name):
            return environment[name], name
    return setting.default, setting.flag


def _read(setting: Setting, given: Mapping[str, Any], environment: Mapping[str, str]) -> Any:
    flag = given[setting.name]
    if flag == "":
        default = f", {setting.default}" if setting.default else ""
        raise SettingRefusedError(
            f"{setting.flag} is empty", hint=f"leave it out for the default{default}"
        )
    value, source = (flag, setting.flag) if flag else environment_value(setting, environment)
    if setting.choices and value not in setting.choices:
        raise SettingRefusedError(
            f"{source} has an invalid value", hint=f"one of: {', '.join(setting.choices)}"
        )
    return setting.read(value, source)


def _unknown(name: str, given: str, flags: Sequence[str], word: str) -> SettingMisusedError:
    """Return the error for a word that is no flag. Its value, behind ``=``, is not shown."""
    from difflib import get_close_matches

    flag = given.partition("=")[0]
    if not flag.startswith("-"):
        return SettingMisusedError(f"unexpected argument {given!r}", hint=word or f"{name} --help")
    close = get_close_matches(flag, flags, n=1)
    hint = f"did you mean {close[0]}?" if close else f"{name} --help lists all settings"
    return SettingMisusedError(f"unknown setting {flag}", hint=hint)
