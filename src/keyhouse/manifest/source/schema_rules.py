"""Rules of a manifest in JSON Schema: forms of texts and numbers, and rules between fields.

A rule is here only if the check has the same rule. The check refuses everything that the schema
refuses.
"""

from collections.abc import Mapping
from typing import Any, Final

from keyhouse.base.rsa_keys import LARGEST, SMALLEST_GENERATED
from keyhouse.manifest.model import ResourceType
from keyhouse.wire.kinds import VM_KINDS
from keyhouse.wire.kinds.identity import VmIdentity
from keyhouse.wire.secret_types import CURVE_SIZES, LARGEST_DERIVED_KEY, LARGEST_KEY, SecretType

Rule = Mapping[str, Any]
"""Keywords of JSON Schema."""

PORT: Final = (
    "^(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$"
)
TIME: Final = (
    "^(?:[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\\.[0-9]{1,9})?"
    "(?:Z|[+-][0-9]{2}:[0-9]{2}))?$"
)
OID: Final = {"minItems": 2, "maxItems": 64, "prefixItems": [{"maximum": 2}]}
ARC: Final = {"minimum": 0}
DOTTED_OID: Final = {"pattern": "^[0-2](?:\\.(?:0|[1-9][0-9]{0,38})){1,63}$"}
PRINTABLE: Final = {"pattern": "^[ -~]+$"}
NO_ZERO_BYTE: Final = {"pattern": "^[^\\u0000]*$"}
_HEX_64: Final = {"pattern": "^(?:[0-9a-fA-F]{64})?$"}
_FILLED: Final = {"type": "string", "minLength": 1}
_EMPTY: Final = {"enum": [None, ""]}
_TRUE: Final = {"const": True}
_NO_BYTES: Final = {"type": ["null", "string", "array"], "pattern": "^[\\r\\n]*$", "maxItems": 0}


def _with(**fields: Rule) -> Rule:
    """Return a JSON Schema rule: an object must have all ``fields``, each with its own rule."""
    return {"properties": fields, "required": [*fields]}


def _if(condition: Rule, then: Rule, otherwise: Rule | None = None) -> Rule:
    return {"if": condition, "then": then} | ({} if otherwise is None else {"else": otherwise})


def _properties(**fields: Rule) -> Rule:
    return {"properties": fields}


_USER_DEFINED: Final = _with(UserDefined=_TRUE)


def _of_type(*kinds: SecretType) -> Rule:
    return _with(Type={"enum": [kind.value for kind in kinds]})


def _sizes(sizes: Rule) -> Rule:
    """Return the rule for ``Size`` of a certificate secret: ``sizes``, optional for uploads."""
    uploaded = _properties(Size={"anyOf": [{"enum": [0, None]}, sizes]})
    return _if(_USER_DEFINED, uploaded, _with(Size=sizes))


def _key_sizes(largest: int) -> Rule:
    return _with(Size={"type": "integer", "multipleOf": 8, "minimum": 8, "maximum": largest})


_SHARED_KEY: Final = {"anyOf": [_USER_DEFINED, _with(Shared=_TRUE)]}

SECRET_RULES: Final = (
    _if(
        _of_type(SecretType.SYMMETRIC_KEY),
        _if(_SHARED_KEY, _key_sizes(LARGEST_KEY), _key_sizes(LARGEST_DERIVED_KEY)),
    ),
    _if(_of_type(SecretType.PLAIN), _USER_DEFINED),
    _if(
        _of_type(SecretType.CERT_RSA),
        _sizes({"type": "integer", "minimum": SMALLEST_GENERATED, "maximum": LARGEST}),
    ),
    _if(_of_type(SecretType.CERT_ECDSA), _sizes({"enum": [*CURVE_SIZES]})),
    _if(_of_type(SecretType.CERT_ED25519), _properties(Size={"enum": [0, None]})),
    _if({"not": _USER_DEFINED}, _properties(Private=_NO_BYTES, Public=_NO_BYTES)),
)


def role_rule(kind: ResourceType, *actions: str) -> Rule:
    """Return the rule for a role with the resource type ``kind``: it may have ``actions`` only."""
    rules: dict[str, Rule] = {"Actions": {"items": {"enum": [*actions]}}}
    if kind is ResourceType.MANIFEST:
        rules["ResourceNames"] = {"maxItems": 0}
    return _if(_with(ResourceType={"const": kind.value}), _properties(**rules))


_NUMBER: Final = {"type": "integer"}
_NAMES_AN_ENCLAVE: Final = (
    _with(UniqueID=_FILLED),
    _with(SignerID=_FILLED),
    _with(ProductID=_NUMBER),
    _with(SecurityVersion=_NUMBER),
)

_ENCLAVE: Final = {
    "properties": {"UniqueID": _HEX_64, "SignerID": _HEX_64},
    "anyOf": [
        {
            **_with(UniqueID=_FILLED),
            "not": {"anyOf": [*_NAMES_AN_ENCLAVE[1:]]},
        },
        {
            "properties": {
                "UniqueID": _EMPTY,
                "SignerID": _FILLED,
                "ProductID": _NUMBER,
                "SecurityVersion": _NUMBER,
            },
            "required": ["SignerID", "ProductID", "SecurityVersion"],
        },
    ],
}

_NAMES_A_STATUS: Final = tuple(
    _with(**{field: {"type": "array", "minItems": 1}})
    for field in ("AcceptedTCBStatuses", "AcceptedAdvisories")
)


def _identity() -> Rule:
    """Return the rule for a package: the identity of a single VM, or of an enclave."""
    rule = _if(_with(Debug=_TRUE), {}, _ENCLAVE)
    later: list[Rule] = []
    for field, kind in reversed(VM_KINDS.items()):
        names = _with(**{field: {"type": "object"}})
        status = () if kind.STATES_TCB else _NAMES_A_STATUS
        excluded = [_with(Debug=_TRUE), *later, *_NAMES_AN_ENCLAVE, *status]
        rule = _if(names, {"not": {"anyOf": excluded}}, rule)
        later.insert(0, names)
    return rule


IDENTITY: Final = _identity()


def hex_of(kind: type[VmIdentity], field: str) -> Rule:
    """Return the rule for ``field`` of a VM's identity: hex digits of its size, or "".

    The first field must not be empty.
    """
    optional = "" if field == kind.first_field() else "?"
    return {"pattern": f"^(?:[0-9a-fA-F]{{{2 * kind.SIZES[field]}}}){optional}$"}


VERSION: Final = {"minimum": 0, "maximum": 255}

CERT_OF_PORT: Final = (
    _if(_with(DisableClientAuth=_TRUE), _with(Cert=_FILLED)),
    _if(_with(Cert=_FILLED), _with(DisableClientAuth=_TRUE)),
)
