"""Declare options and arguments as annotations of a function's parameters.

``name: Annotated[str, Option("--name", metavar="NAME", help="...")] = ""``: a parameter without a
default is required. The annotation selects the parser: str, int, Path, bool (a flag), Literal (a
choice), or a list of these (a repeatable option).
"""

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    get_args,
    get_origin,
    get_type_hints,
)

import click
import msgspec

from keyhouse.cli.parser.usage import Choice, Number

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

GENERAL: Final = "General options"
"""The section of the help for options of every command."""

Check = Callable[[click.Context, click.Parameter, Any], Any]
"""Return the value of a parameter for the function, or raise ``click.BadParameter``."""

Complete = Callable[[], Iterable[str]]
"""Return the completions for a shell. The function raises nothing and uses no network."""

_Completing = Callable[[click.Context, click.Parameter, str], "list[CompletionItem[str]]"]

_METAVARS: Final = {Path: "FILE", int: "NUMBER"}
_OF_FILES: Final = {"FILE": "file", "DIR": "dir"}


class Argument:
    """A positional argument of a command: its name in the help, its check and its completion."""

    def __init__(
        self,
        *,
        metavar: str,
        help: str,  # noqa: A002 the name that click has
        check: Check | None = None,
        complete: Complete | None = None,
    ) -> None:
        self.metavar: Final = metavar
        self.settings: Final[dict[str, Any]] = {
            "help": help,
            "callback": check,
            "shell_complete": _completion(metavar, complete),
        }

    def parameter(self, name: str, kind: Any, default: Any, section: str) -> click.Parameter:
        """Return click's argument for the function's parameter ``name``.

        ``kind`` is the type in the annotation. ``default`` is the default value, or
        ``inspect.Parameter.empty`` for a required argument. ``section`` has no effect.
        """
        del section  # the help has a section for arguments
        item, many = _item(kind)
        required = default is inspect.Parameter.empty
        settings = {
            **self.settings,
            "metavar": self.metavar if required else f"[{self.metavar}]",
            "required": required,
            "nargs": -1 if many else 1,
            "type": _type(item),
        }
        return click.Argument([name], **settings, **_default_setting(default))


class Option:
    """An option of a command. Without ``names``, the name of the parameter names the option.

    ``metavar``: the word for the value in the help. ``section``: the section of the help; if empty,
    the section of the option's group. ``complete`` returns completions for a shell. ``range``: the
    least and the greatest permitted number, or None.
    """

    def __init__(
        self,
        *names: str,
        metavar: str = "",
        help: str = "",  # noqa: A002 the name that click has
        hidden: bool = False,
        section: str = "",
        check: Check | None = None,
        complete: Complete | None = None,
        range: tuple[int, int] | None = None,  # noqa: A002 the usual name
    ) -> None:
        self.names: Final = names
        self.metavar: Final = metavar
        self.section: Final = section
        self.complete: Final = complete
        self.range: Final = range
        self.settings: Final[dict[str, Any]] = {"help": help, "hidden": hidden, "callback": check}

    def parameter(self, name: str, kind: Any, default: Any, section: str) -> click.Parameter:
        """Return click's option for the function's parameter ``name``.

        ``kind`` is the type in the annotation. ``default`` is the default value, or
        ``inspect.Parameter.empty`` for a required option. ``section`` is the section of the group.
        """
        names = [name, *(self.names or (f"--{name.replace('_', '-')}",))]
        section = self.section or section
        item, many = _item(kind)
        if item is bool:
            return _Option(names, section, is_flag=True, default=default, **self.settings)
        metavar = self.metavar or _METAVARS.get(item)
        settings = {
            **self.settings,
            "type": _type(item) if self.range is None else Number(*self.range),
            "metavar": metavar,
            "show_default": item is int,
            "multiple": many,
            "required": default is inspect.Parameter.empty,
            "shell_complete": _completion(metavar or "", self.complete),
        }
        return _Option(names, section, **settings, **_default_setting(default))


class _Option(click.Option):
    """An option for click, with the section of the help that lists the option."""

    def __init__(self, names: list[str], section: str, **settings: Any) -> None:
        super().__init__(names, **settings)
        self.section = section


def section_of(parameter: click.Parameter) -> str:
    """Return the section of the help that lists ``parameter``.

    "" is the section for the command's own options.
    """
    return parameter.section if isinstance(parameter, _Option) else GENERAL


class OptionGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Options and arguments that several commands share, as the fields of a subclass.

    A field is annotated like a parameter of a command's function. A function with a parameter of
    the subclass is a command with all fields as options and arguments.
    """

    section: ClassVar[str] = ""
    """The section of the fields in the help; "" means the command's own section."""

    def check(self, beside: Iterable["OptionGroup"]) -> None:
        """Raise ``WrongUsageError`` if options of this group contradict options of the command.

        ``beside``: all option groups of the command, including this group. The parser calls this
        method before the command's function. The method of this base class accepts all options.
        """


class CommandSignature:
    """The parameters of a command's function, as options and arguments of the command line."""

    def __init__(self, function: Callable[..., None]) -> None:
        own = inspect.signature(function, eval_str=True).parameters.values()
        self._groups: Final[dict[str, type[OptionGroup]]] = {
            parameter.name: parameter.annotation
            for parameter in own
            if _is_group(parameter.annotation)
        }
        self.parameters: Final = [
            each
            for parameter in own
            for each in (
                _fields(parameter.annotation)
                if parameter.name in self._groups
                else [_parameter(parameter.name, parameter.annotation, parameter.default)]
            )
        ]

    def arguments(self, parsed: dict[str, Any]) -> dict[str, Any]:
        """Return the values for the function's parameters, by name.

        ``parsed`` has the value of each option and argument, by name. The method collects the
        values of option groups, and checks each group. Raises ``WrongUsageError``.
        """
        values: dict[str, Any] = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in parsed.items()
        }
        for name, group in self._groups.items():
            fields = group.__struct_fields__
            values[name] = group(**{field: values.pop(field) for field in fields})
        for name in self._groups:
            values[name].check([values[other] for other in self._groups])
        return values


def _is_group(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, OptionGroup)


def _fields(group: type[OptionGroup]) -> list[click.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        _parameter(field.name, hints[field.name], _default(field), group.section)
        for field in msgspec.structs.fields(group)
    ]


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return inspect.Parameter.empty


def _parameter(name: str, annotation: Any, default: Any, section: str = "") -> click.Parameter:
    if get_origin(annotation) is Annotated:
        kind, declared = get_args(annotation)[:2]
        if isinstance(declared, Option | Argument):
            return declared.parameter(name, kind, default, section)
    raise TypeError(f"the parameter {name} is annotated with neither Option nor Argument")


def _item(kind: Any) -> tuple[Any, bool]:
    """Return the type of a single value, and whether ``kind`` is a list of such values.

    ``kind`` is the annotated type of a parameter: ``T``, ``list[T]``, or ``T | None``.
    """
    if get_origin(kind) is list:
        return get_args(kind)[0], True
    others = [each for each in get_args(kind) if each is not type(None)]
    optional = get_origin(kind) is not Literal and len(others) == 1
    return (others[0] if optional else kind), False


def _type(item: Any) -> click.ParamType[Any]:
    if get_origin(item) is Literal:
        return Choice(get_args(item))
    return {str: click.STRING, int: Number(), Path: click.Path(path_type=Path)}[item]


def _default_setting(default: Any) -> dict[str, Any]:
    return {} if default is inspect.Parameter.empty else {"default": default}


def _completion(metavar: str, complete: Complete | None) -> _Completing | None:
    """Return the function for click that completes a value in a shell.

    ``complete`` returns the known values. If no known value fits and ``metavar`` is ``FILE`` or
    ``DIR``, the shell completes paths. The result is None if ``complete`` is None and ``metavar``
    is a different word. Click then uses its completion for the type of the option.
    """
    kind = _OF_FILES.get(metavar.split("|", maxsplit=1)[0])  # FILE|NAME is both
    if complete is None and kind is None:
        return None

    def completions(
        _context: click.Context, _parameter: click.Parameter, begun: str
    ) -> "list[CompletionItem[str]]":
        from click.shell_completion import CompletionItem

        names = [] if complete is None else complete()
        items = [CompletionItem(name) for name in names if name.startswith(begun)]
        if not items and kind:
            return [CompletionItem(begun, type=kind)]
        return items

    return completions
