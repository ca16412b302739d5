"""Options and arguments as annotations of a function's parameters, and click's form of them.

``name: Annotated[str, Option("--name", metavar="NAME", help="...")] = ""``: without a default the
parameter is required. What is parsed depends on the type: str, int, Path, bool (a flag), Literal
(a choice), list of one of them (may be repeated).
"""

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints

import click
import msgspec

__all__ = ["Argument", "Check", "Option", "OptionGroup", "Signature"]

Check = Callable[[click.Context, click.Parameter, Any], Any]
"""Returns the value of a parameter as it is passed on, or raises ``click.BadParameter``."""


class Argument:
    """An argument of a command: what a word at its place means."""

    def __init__(self, *, metavar: str = "", help: str = "", check: Check | None = None) -> None:  # noqa: A002 the name that click has
        self.settings: Final[dict[str, Any]] = {
            "metavar": metavar or None,
            "help": help,
            "callback": check,
        }

    def parameter(self, name: str, kind: Any, default: Any) -> click.Parameter:
        """Return click's argument for the parameter ``name`` of this type and default."""
        item, many = _item(kind)
        settings = {
            **self.settings,
            "nargs": -1 if many else 1,
            "type": _type(item),
        }
        if default is inspect.Parameter.empty:
            return click.Argument([name], required=True, **settings)
        if settings["metavar"]:
            settings["metavar"] = f"[{settings['metavar']}]"
        return click.Argument([name], required=False, default=default, **settings)


class Option:
    """An option of a command. Without names it is called as its parameter."""

    def __init__(
        self,
        *names: str,
        metavar: str = "",
        help: str = "",  # noqa: A002 the name that click has
        hidden: bool = False,
        check: Check | None = None,
        range: tuple[int, int] | None = None,  # noqa: A002 of a number, both included
    ) -> None:
        self.names: Final = names
        self.range: Final = range
        self.settings: Final[dict[str, Any]] = {
            "metavar": metavar or None,
            "help": help,
            "hidden": hidden,
            "callback": check,
        }

    def parameter(self, name: str, kind: Any, default: Any) -> click.Parameter:
        """Return click's option for the parameter ``name`` of this type and default."""
        names = [name, *(self.names or (f"--{name.replace('_', '-')}",))]
        item, many = _item(kind)
        if item is bool:
            return click.Option(names, is_flag=True, default=default, **self.settings)
        settings = {
            **self.settings,
            "type": _type(item) if self.range is None else click.IntRange(*self.range),
            "show_default": item is int,
            "multiple": many,
        }
        if default is inspect.Parameter.empty:
            return click.Option(names, required=True, **settings)
        return click.Option(names, default=default, **settings)


class OptionGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Options and arguments that several commands share, each a field annotated like a parameter.

    A command has a parameter of this type; on the command line the fields are in its place.
    """

    def check(self, beside: Iterable["OptionGroup"]) -> None:
        """Raise ``WrongUsageError`` if the options contradict each other, or those of other groups.

        Called before the command does anything.
        """


class Signature:
    """The parameters of a command's function, and those of the command line that fill them."""

    def __init__(self, function: Callable[..., None]) -> None:
        own = inspect.signature(function, eval_str=True).parameters.values()
        self._groups: Final[dict[str, type[OptionGroup]]] = {
            one.name: one.annotation for one in own if _is_group(one.annotation)
        }
        self.parameters: Final = [
            each
            for one in own
            for each in (
                _fields(one.annotation)
                if one.name in self._groups
                else [_parameter(one.name, one.annotation, one.default)]
            )
        ]

    def arguments(self, parsed: dict[str, Any]) -> dict[str, Any]:
        """Return what the function is called with. Raises ``WrongUsageError``, as the groups do."""
        given: dict[str, Any] = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in parsed.items()
        }
        for name, group in self._groups.items():
            fields = group.__struct_fields__
            given[name] = group(**{field: given.pop(field) for field in fields})
        for name in self._groups:
            given[name].check([given[other] for other in self._groups])
        return given


def _is_group(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, OptionGroup)


def _fields(group: type[OptionGroup]) -> list[click.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        _parameter(field.name, hints[field.name], _default(field))
        for field in msgspec.structs.fields(group)
    ]


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return inspect.Parameter.empty


def _parameter(name: str, annotation: Any, default: Any) -> click.Parameter:
    if get_origin(annotation) is Annotated:
        kind, declared = get_args(annotation)[:2]
        if isinstance(declared, Option | Argument):
            return declared.parameter(name, kind, default)
    raise TypeError(f"the parameter {name} is annotated with neither Option nor Argument")


def _item(kind: Any) -> tuple[Any, bool]:
    """Return the type of one value, and whether there may be many."""
    if get_origin(kind) is list:
        return get_args(kind)[0], True
    others = [each for each in get_args(kind) if each is not type(None)]
    optional = get_origin(kind) is not Literal and len(others) == 1
    return (others[0] if optional else kind), False


def _type(item: Any) -> click.ParamType[Any]:
    if get_origin(item) is Literal:
        return click.Choice(get_args(item))
    return {
        str: click.STRING,
        int: click.INT,
        Path: click.Path(path_type=Path),
    }[item]
