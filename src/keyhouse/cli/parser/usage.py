"""Errors of usage in the form of all other errors: the problem, and the next step."""

from collections.abc import Sequence
from typing import Any, Final

import click

from keyhouse.base.errors import RefusedError

_DIGITS: Final = 18  # every number of 18 digits fits into 64 bits


class WrongUsageError(RefusedError):
    """Options of a command are missing, or contradict each other. The exit code is 2."""

    code = "usage"


class _UnknownValueError(click.BadParameter):
    """``value`` is not among ``known``, the permitted words of an option or argument."""

    def __init__(self, value: str, known: tuple[str, ...]) -> None:
        super().__init__("unknown value")
        self.value, self.known = value, known


class _InvalidNumberError(click.BadParameter):
    """``value`` is not a number in the range of its option. ``allowed`` describes this range."""

    def __init__(self, value: str, allowed: str) -> None:
        super().__init__("invalid value")
        self.value, self.allowed = value, allowed


class UnexpectedArgumentError(click.UsageError):
    """A command has too many arguments; ``word`` is the first surplus argument."""

    def __init__(self, word: str, context: click.Context) -> None:
        super().__init__("unexpected argument", context)
        self.word = word


class Number(click.ParamType[int]):
    """The type of an option for a whole number in decimal digits.

    ``least`` and ``most`` are the limits of the number. None for ``most`` means no limit.
    """

    name = "integer"

    def __init__(self, least: int = 0, most: int | None = None) -> None:
        self._least, self._most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the text ``value`` as a number. ``param`` and ``ctx`` have no effect.

        Raises ``click.BadParameter`` for a number outside the range, and for any other text.
        """
        del param, ctx  # the parser adds them to the error
        text = str(value)
        if text.isascii() and text.isdecimal() and len(text) <= _DIGITS:
            number = int(text)
            if number >= self._least and (self._most is None or number <= self._most):
                return number
        end = f"from {self._least} to {self._most}" if self._most else f"of {self._least} or more"
        raise _InvalidNumberError(text, f"a whole number {end}")


class Choice(click.Choice[str]):
    """The type of an option with a list of permitted words."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return ``value`` if it is a permitted word. ``param`` and ``ctx`` have no effect.

        Raises ``click.BadParameter`` for a word outside the list.
        """
        del param, ctx  # the parser adds them to the error
        if value not in self.choices:
            raise _UnknownValueError(value, tuple(self.choices))
        return value


def usage_error(error: click.ClickException) -> WrongUsageError:
    """Return the error of Keyhouse for ``error``, which the parser (click) raised."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "keyhouse"
    message, hint = _message_and_hint(error, context)
    return WrongUsageError(message, hint=hint or f"see {path} --help")


def _message_and_hint(
    error: click.ClickException, context: click.Context | None
) -> tuple[str, str]:
    """Return the message and the hint for the parser's ``error``; the hint may be "".

    ``context`` is the parser's context of the command, or None if unknown.
    """
    from keyhouse.wire.json_decoder import nearest

    texts = (_plain(error.format_message()), "")
    match error:
        case click.NoSuchOption(option_name=name):
            texts = (f"unknown option {name}", _did_you_mean(name, _options(context)))
        case click.NoSuchCommand(command_name=name):
            texts = (f"unknown command {name}", _meant_command(name, context))
        case click.MissingParameter(param=click.Parameter() as missing):
            texts = (f"{_name(missing)} is missing", _usage(context))
        case UnexpectedArgumentError(word=word):
            texts = (f"unexpected argument {word}", _usage(context))
        case click.BadOptionUsage(option_name=name):
            texts = _misuse(name, context)
        case _UnknownValueError(param=click.Parameter() as parameter, value=value, known=known):
            texts = (f"{_name(parameter)} has the unknown value {value}", nearest(value, known))
        case _InvalidNumberError(
            param=click.Parameter() as parameter, value=value, allowed=allowed
        ):
            texts = (f"{_name(parameter)} has the invalid value {value}", f"pass {allowed}")
        case click.BadParameter(param=click.Parameter() as parameter):
            texts = (f"{_name(parameter)}: {_plain(error.message)}", "")
    return texts


def _meant_command(word: str, context: click.Context | None) -> str:
    """Return a hint for the unknown command ``word``; "" without a hint.

    The hint names the command for the word of another tool, or else a command with a similar name.
    ``context`` is the parser's context of the group of commands, or None if unknown.
    """
    from keyhouse.cli.parser.other_tools import hint_for

    group = context.command_path if context is not None else ""
    return hint_for(group, word) or _did_you_mean(word, _commands(context))


def _did_you_mean(word: str, known: Sequence[str]) -> str:
    """Return a hint with the word of ``known`` that the user probably meant by ``word``.

    This is the only word that begins with ``word``, or else a similar word. "" without such a word.
    """
    from keyhouse.wire.json_decoder import resembling

    longer = [each for each in known if each.startswith(word)]
    close = longer[0] if len(longer) == 1 else resembling(word, known)
    return f"did you mean {close}?" if close else ""


def _misuse(name: str, context: click.Context | None) -> tuple[str, str]:
    """Return message and hint for a misuse of the option ``name``.

    Either an option has no value, or a flag has a value. ``context`` is the parser's context of the
    command, or None if unknown.
    """
    own = context.command.get_params(context) if context is not None else []
    option = next((each for each in own if name in each.opts), None)
    if isinstance(option, click.Option) and not option.is_flag:
        metavar = option.metavar or "|".join(getattr(option.type, "choices", ())) or "VALUE"
        return f"{name} needs a value", f"pass {name} {metavar}"
    return f"{name} takes no value", f"pass {name} without a value"


def _usage(context: click.Context | None) -> str:
    """Return a hint with the usage of a command: ``use: keyhouse status [OPTIONS] [HOST]``.

    ``context`` is the parser's context of the command, or None if unknown.
    """
    if context is None:
        return "see keyhouse --help"
    return "use: " + " ".join(context.get_usage().removeprefix("Usage: ").split())


def _options(context: click.Context | None) -> tuple[str, ...]:
    if context is None:
        return ()
    shown = [each for each in context.command.get_params(context) if not getattr(each, "hidden", 0)]
    return tuple(name for each in shown for name in each.opts if name.startswith("-"))


def _commands(context: click.Context | None) -> tuple[str, ...]:
    if context is None or not isinstance(context.command, click.Group):
        return ()
    return tuple(context.command.list_commands(context))


def _name(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Argument):
        return parameter.human_readable_name.strip("[]")
    return max(parameter.opts, key=len)


def _plain(message: str) -> str:
    text = message.rstrip(".")
    return text[:1].lower() + text[1:]
