"""Evaluate the parsed nodes of the chart's templates with the chart's values."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from keyhouse.base.errors import BrokenError
from keyhouse.cli.kube.rendering.functions import FUNCTIONS, printed
from keyhouse.cli.kube.rendering.syntax import (
    Assignment,
    Block,
    FunctionCall,
    Literal,
    Node,
    Operand,
    Output,
    Pipeline,
    Text,
    ValuePath,
)
from keyhouse.manifest.source.yaml_text import read_yaml


class TemplateError(BrokenError):
    """A template of the chart does not fit its values."""


class TemplateScope:
    """The values for a block of a template: the dot (``.``), and the variables.

    ``definitions`` are the named templates for ``include``. ``files`` are the texts for
    ``.Files.Get``, by name.
    """

    def __init__(
        self,
        dot: Any,
        variables: Mapping[str, Any],
        definitions: Mapping[str, Sequence[Node]],
        files: Mapping[str, str],
    ) -> None:
        self._dot = dot
        self._variables = dict(variables)
        self._definitions: Final = definitions
        self._files: Final = files

    @classmethod
    def outermost(
        cls, dot: Any, definitions: Mapping[str, Sequence[Node]], files: Mapping[str, str]
    ) -> "TemplateScope":
        """Return the scope for the begin of a template: the variable ``$`` has the value ``dot``.

        ``definitions`` and ``files`` as for the class.
        """
        return cls(dot, {"$": dot}, definitions, files)

    def _inner(self, dot: Any, **variables: Any) -> "TemplateScope":
        return TemplateScope(dot, {**self._variables, **variables}, self._definitions, self._files)

    def render(self, nodes: Sequence[Node]) -> str:
        """Return the output of the template with these ``nodes``.

        Raises ``TemplateError`` and ``ValuesRefusedError``.
        """
        return "".join(map(self._text, nodes))

    def _text(self, node: Node) -> str:
        match node:
            case Text(text):
                return text
            case Output(pipeline):
                return printed(self._result(pipeline))
            case Assignment(variable, pipeline):
                self._variables[variable] = self._result(pipeline)
                return ""
            case Block():
                return self._block(node)

    def _block(self, block: Block) -> str:
        value = self._result(block.pipeline)
        if not value:
            return self._inner(self._dot).render(block.otherwise)
        if block.kind == "if":
            return self._inner(self._dot).render(block.body)
        if block.kind == "with":
            return self._inner(value).render(block.body)
        pairs = sorted(value.items()) if isinstance(value, Mapping) else enumerate(value)
        return "".join(self._iteration(block, name, item) for name, item in pairs)

    def _iteration(self, block: Block, name: Any, item: Any) -> str:
        bound = (name, item)[-len(block.variables) :] if block.variables else ()
        return self._inner(item, **dict(zip(block.variables, bound, strict=True))).render(
            block.body
        )

    def _result(self, pipeline: Pipeline) -> Any:
        value = self._value(pipeline.stages[0])
        for stage in pipeline.stages[1:]:
            if not isinstance(stage, FunctionCall):
                raise TemplateError(
                    f"a pipeline of the chart continues with {stage}, expected a function"
                )
            value = self._call(stage.function, [*map(self._value, stage.operands), value])
        return value

    def _value(self, operand: Operand) -> Any:
        match operand:
            case Literal(value):
                return value
            case ValuePath(base, names):
                return self._field(base, names)
            case FunctionCall(("and" | "or") as word, operands):
                return self._short_circuit(word, operands)
            case FunctionCall(function, operands):
                return self._call(function, [*map(self._value, operands)])

    def _field(self, base: str | Pipeline, names: Sequence[str]) -> Any:
        if isinstance(base, Pipeline):
            value = self._result(base)
        else:
            value = self._dot if base == "." else self._variables[base]
        for name in names:
            if not isinstance(value, Mapping):
                raise TemplateError(
                    f"the chart reads the member {name} of a value of the type"
                    f" {type(value).__name__}, expected an object"
                )
            value = value.get(name)
        return value

    def _short_circuit(self, word: str, operands: Sequence[Operand]) -> Any:
        value: Any = None
        for operand in operands:
            value = self._value(operand)
            if bool(value) == (word == "or"):
                break
        return value

    def _call(self, function: str, values: Sequence[Any]) -> Any:
        if function == "include":
            name, dot = values
            inner = TemplateScope.outermost(dot, self._definitions, self._files)
            return inner.render(self._definitions[name])
        if function == "file":
            return self._files[values[0]]
        if function == "fromYaml":
            return read_yaml(values[0].encode()).tree
        if function not in FUNCTIONS:
            raise TemplateError(f"the chart calls {function}, which the reader does not know")
        return FUNCTIONS[function](*values)
