"""Errors of usage in the words of all other errors: what is wrong, and what can be typed."""

import click

from keyhouse.base.errors import RefusedError

__all__ = ["Choice", "WrongUsageError", "usage_error"]


class WrongUsageError(RefusedError):
    """Options are missing, or cannot be combined: exit code 2, as for errors of the parser."""

    code = "usage"


class _UnknownValueError(click.BadParameter):
    """An option was given a value that is not one of its choices."""

    def __init__(self, value: str, known: tuple[str, ...]) -> None:
        super().__init__("unknown value")
        self.value, self.known = value, known


class Choice(click.Choice[str]):
    """One of a few words."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return ``value``. Raises ``click.BadParameter`` unless it is one of the words."""
        del param, ctx  # the parser adds them to the error
        if value not in self.choices:
            raise _UnknownValueError(value, tuple(self.choices))
        return value


def usage_error(error: click.ClickException) -> WrongUsageError:
    """Return ``error``, which the parser raised, as an error of Keyhouse."""
    from keyhouse.wire.json_decoder import nearest, resembling

    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "keyhouse"
    hint = f"{path} --help lists what there is"
    match error:
        case click.NoSuchOption():
            close = resembling(error.option_name, _options(context))
            return WrongUsageError(
                f"unknown option {error.option_name}",
                hint=f"did you mean {close}?" if close else hint,
            )
        case click.NoSuchCommand():
            close = resembling(error.command_name, _commands(context))
            return WrongUsageError(
                f"unknown command {error.command_name}",
                hint=f"did you mean {close}?" if close else hint,
            )
        case click.MissingParameter(param=click.Parameter() as missing):
            usage = context.get_usage().removeprefix("Usage: ") if context is not None else hint
            return WrongUsageError(f"{_name(missing)} is missing", hint=" ".join(usage.split()))
        case _UnknownValueError(param=click.Parameter() as given):
            return WrongUsageError(
                f"{_name(given)}: unknown value {error.value}",
                hint=nearest(error.value, error.known),
            )
        case click.BadParameter(param=click.Parameter() as given):
            return WrongUsageError(f"{_name(given)}: {_plain(error.message)}", hint=hint)
    return WrongUsageError(_plain(error.format_message()), hint=hint)


def _meant(close: str) -> str:
    return f"did you mean {close}?" if close else ""


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
