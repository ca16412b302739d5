"""Read the two admission policies of the chart, and apply them to the objects of requests."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from keyhouse.base.errors import InvalidError, RefusedError
from keyhouse.cli.kube.webhook.evaluation import Budget, EvaluationScope, ExpressionError, Variables
from keyhouse.cli.kube.webhook.merging import Object, apply_configuration, apply_patch
from keyhouse.cli.kube.webhook.syntax import Expression, parse
from keyhouse.manifest.source.yaml_text import read_yaml

_KINDS: Final = ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")


class AdmissionRequest(msgspec.Struct, frozen=True, rename="camel"):
    """A request to the API server, as the API server describes it to webhooks."""

    uid: str
    namespace: str = ""
    operation: str = ""
    object: Object | None = None
    old_object: Object | None = None


class _Policy:
    """The common parts of both policies: conditions and variables.

    ``spec`` is the specification in the policy's object.
    """

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._conditions = [parse(each["expression"]) for each in spec["matchConditions"]]
        self._variables = {each["name"]: parse(each["expression"]) for each in spec["variables"]}

    def scope(
        self, request: AdmissionRequest, target: Any, params: Any, budget: Budget
    ) -> EvaluationScope:
        """Return the names for the policy's expressions, with their values.

        ``target`` is the object of ``request``, perhaps changed. ``params`` is the ConfigMap with
        the marbles, or None for the mutating policy. ``budget`` limits the evaluation.
        """
        names = {
            "object": target,
            "oldObject": request.old_object,
            "params": params,
            "request": {"namespace": request.namespace, "operation": request.operation},
            "variables": Variables(self._variables),
        }
        return EvaluationScope(names, budget)

    def concerns(self, request: AdmissionRequest, budget: Budget) -> bool:
        """Return whether ``request`` fulfils all conditions of the policy.

        ``budget`` limits the evaluation. Raises ``ExpressionError``.
        """
        scope = self.scope(request, request.object, None, budget)
        return all(scope.evaluate(each) is True for each in self._conditions)


class MutatingPolicy(_Policy):
    """The policy that changes pods. ``spec`` is the specification in the policy's object."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        super().__init__(spec)
        self._mutations = [_mutation(each) for each in spec["mutations"]]

    def changed(self, request: AdmissionRequest) -> Object:
        """Return the object of ``request`` after all changes by the policy.

        Raises ``ExpressionError`` and ``ChangeError``.
        """
        budget = Budget()
        target = dict(request.object or {})
        if self.concerns(request, budget):
            for kind, expression in self._mutations:
                # Each mutation sees the changes of the mutations before.
                change = self.scope(request, target, None, budget).evaluate(expression)
                is_merge = kind == "ApplyConfiguration"
                target = (apply_configuration if is_merge else apply_patch)(target, change)
        return target


def _mutation(entry: Mapping[str, Any]) -> tuple[str, Expression]:
    kind = entry["patchType"]
    inner = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}[kind]
    return kind, parse(entry[inner]["expression"])


class _Validation(msgspec.Struct, frozen=True):
    """A rule of the validating policy: an expression that must be true, and texts for a refusal.

    ``message_expression`` computes the text of a refusal. If this expression is None or fails, the
    text is ``message``.
    """

    expression: Expression
    message: str
    message_expression: Expression | None


class ValidatingPolicy(_Policy):
    """The policy that refuses pods with wrong labels. ``spec``: as for ``MutatingPolicy``."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        super().__init__(spec)
        self._validations = [
            _Validation(
                parse(each["expression"]),
                each.get("message") or f"failed expression: {each['expression'].strip()}",
                parse(each["messageExpression"]) if "messageExpression" in each else None,
            )
            for each in spec["validations"]
        ]

    def refusal(self, request: AdmissionRequest, params: Any) -> str:
        """Return the text of the first rule that ``request`` breaks, or "".

        ``params``: the ConfigMap with the marbles. Raises ``ExpressionError``.
        """
        budget = Budget()
        if not self.concerns(request, budget):
            return ""
        scope = self.scope(request, request.object, params, budget)
        for each in self._validations:
            if scope.evaluate(each.expression) is not True:
                return _message(each, scope)
        return ""


def _message(validation: _Validation, scope: EvaluationScope) -> str:
    if validation.message_expression is None:
        return validation.message
    try:
        return str(scope.evaluate(validation.message_expression))
    except ExpressionError:
        return validation.message


class Policies(msgspec.Struct, frozen=True):
    """The mutating and the validating admission policy of an installation."""

    mutating: MutatingPolicy
    validating: ValidatingPolicy


class PoliciesUnreadableError(RefusedError):
    """The file with the policies is not YAML, or lacks a policy of the chart."""

    code = "policies-unreadable"
    next_step = "write the file of --policies again: keyhouse kube upgrade"


def read_policies(content: bytes) -> Policies:
    """Return the policies in ``content``, YAML documents of the chart.

    Raises ``PoliciesUnreadableError``, and ``ExpressionSyntaxError`` for an unknown construct.
    """
    found = {each["kind"]: each["spec"] for each in _documents(content)}
    missing = [kind for kind in _KINDS if kind not in found]
    if missing:
        raise PoliciesUnreadableError(
            f"the file of the webhook's policies has no {missing[0]}",
            hint="set injection.webhook.enabled to true, and run keyhouse kube upgrade: the chart"
            " writes this file",
        )
    mutating, validating = (found[kind] for kind in _KINDS)
    return Policies(MutatingPolicy(mutating), ValidatingPolicy(validating))


def _documents(content: bytes) -> Iterable[Mapping[str, Any]]:
    parts: Sequence[bytes] = content.split(b"\n---\n")
    for part in parts:
        try:
            read = read_yaml(part)
        except InvalidError as error:
            raise PoliciesUnreadableError(
                f"the file of the webhook's policies is not YAML: {error.message}"
            ) from None
        if read.problems:
            raise PoliciesUnreadableError(
                f"the file of the webhook's policies is not YAML: {read.problems[0]}"
            )
        if isinstance(read.tree, dict) and {"kind", "spec"} <= read.tree.keys():
            yield read.tree
