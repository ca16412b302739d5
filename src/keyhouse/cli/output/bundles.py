"""Options that many commands have, written once: a bundle stands for all of its fields."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, get_type_hints

import msgspec

__all__ = ["Bundle", "bundled"]


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """Options and arguments that belong together; each field is annotated as typer wants it."""

    def check(self, beside: Iterable["Bundle"]) -> None:
        """Return if what was typed makes sense with the other bundles, or raise ``WrongUsage``.

        This comes before the command does anything.
        """


def bundled(command: Callable[..., None]) -> Callable[..., None]:
    """Return ``command`` as typer has to see it: with the fields of bundles as its parameters.

    Fields take the place of their bundle, so arguments keep the order in which they are written.
    """
    own = inspect.signature(command, eval_str=True).parameters.values()
    bundles = {one.name: one.annotation for one in own if _is_bundle(one.annotation)}
    if not bundles:
        return command
    fields = {name: _parameters(kind) for name, kind in bundles.items()}

    @functools.wraps(command)
    def run(**given: Any) -> None:
        for name, kind in bundles.items():
            given[name] = kind(**{one.name: given.pop(one.name) for one in fields[name]})
        for name in bundles:
            given[name].check([given[other] for other in bundles])
        command(**given)

    shown = [
        each
        for one in own
        for each in fields.get(one.name, [one.replace(kind=inspect.Parameter.KEYWORD_ONLY)])
    ]
    run.__dict__["__signature__"] = inspect.Signature(shown)
    run.__annotations__ = {one.name: one.annotation for one in shown}
    return run


def _is_bundle(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Bundle)


def _parameters(bundle: type[Bundle]) -> list[inspect.Parameter]:
    hints = get_type_hints(bundle, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_default(field),
            annotation=hints[field.name],
        )
        for field in msgspec.structs.fields(bundle)
    ]


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return inspect.Parameter.empty
