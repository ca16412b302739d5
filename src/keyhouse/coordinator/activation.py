"""The parameters of workloads, for an activation and for a workload that runs.

The parameters are the rendered templates and the identity of the workload. An activation makes or
derives only the secrets that the marble type uses, and stores nothing. At each start, a workload
with the same UUID gets the same derived keys, and new certificates. Source:
``docs/reference/manifest.md``, "Templates" and "Secrets"; ``docs/reference/workload-api.md``,
"Calls".
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec
from msgspec.structs import replace

from keyhouse.authority import StoredSecret, derive_marble_key
from keyhouse.base.errors import BadRequestError, ConflictError, InvalidError
from keyhouse.base.pem import certificate_pem, private_key_pem
from keyhouse.base.printable import at, quoted
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.policy import Recipe, policy_of
from keyhouse.coordinator.core.state import Running
from keyhouse.manifest import MissingValueError, Package, Template, TemplateSource, Values
from keyhouse.manifest.templates import TemplateCall
from keyhouse.wire.secret_types import SecretDefinition, SecretType

T = TypeVar("T")


def package_in_force(state: Running, name: str) -> Package:
    """Return the package ``name`` with the SecurityVersion in force.

    Package updates may have raised this version above the version in the manifest.
    """
    package = policy_of(state.manifest).manifest.packages[name]
    version = state.security_versions.get(name, package.security_version)
    return replace(package, security_version=version)


class ActivationRequest(msgspec.Struct, frozen=True):
    """The request of a workload as received, without any check.

    Source: ``docs/reference/workload-api.md``, "Calls".
    """

    quote: bytes  # raw, or with the 16-byte header; empty: none
    csr: bytes  # PKCS #10, DER
    marble_type: str
    uuid: str


class ActivationParameters(msgspec.Struct, frozen=True):
    """The files, variables and arguments of a workload. They contain secrets."""

    files: Mapping[str, bytes]  # by path
    env: Mapping[str, bytes]  # by name
    argv: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<Parameters of {len(self.files)} files and {len(self.env)} variables>"


class Joining(msgspec.Struct, frozen=True):
    """The workload of an activation, with its new certificate and key, and the time (UTC)."""

    marble: UUID
    leaf: StoredSecret  # its new certificate and key
    now: datetime


def parameters(state: Running, recipe: Recipe, joining: Joining) -> ActivationParameters:
    """Return the parameters of the workload ``joining``, which has the marble type of ``recipe``.

    Raises ``ConflictError`` for a value that a user has to upload first, and for a certificate that
    would already have expired.
    """
    secrets = _secret_values(state, recipe, joining, _current(state, recipe))
    values = _values(state, recipe, joining, secrets)
    files, env = _filled(recipe, lambda template: template.render(values))
    env |= _predefined(state, joining.leaf)
    if recipe.marble.tls:
        env["MARBLE_TTLS_CONFIG"] = _tls_config(
            recipe, leaf=joining.leaf, secrets=secrets, marble_root=state.keys.marble_root_cert
        )
    return ActivationParameters(files=files, env=env, argv=recipe.marble.parameters.argv)


Pieces = tuple[bytes | TemplateCall, ...]
"""Content in order. A call stands for a part of the workload's own certificate."""


class Present(msgspec.Struct, frozen=True):
    """The present parameters of a running workload, with gaps for its own certificate and key.

    They contain secrets.
    """

    files: Mapping[str, Pieces]  # by path
    env: Mapping[str, Pieces]  # by name, without the variables of every workload
    predefined: Mapping[str, Pieces]  # these variables
    argv: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<Present parameters of {len(self.files)} files and {len(self.env)} variables>"


def present(
    state: Running, recipe: Recipe, marble: UUID, now: datetime, roots: Iterable[bytes]
) -> Present:
    """Return the present parameters of the running workload with the UUID ``marble``.

    ``recipe``: the recipe of its marble type. ``roots``: the marble roots that workloads trust
    (DER), the root in force first. Raises as ``parameters``.
    """
    nothing = StoredSecret(private=_NOTHING, public=_NOTHING)
    joining = Joining(marble, nothing, now)
    secrets = _secret_values(state, recipe, joining, _current(state, recipe))
    values = _values(state, recipe, joining, secrets)
    bundle = b"".join(map(_coordinators_pem, roots))
    files, env = _filled(recipe, lambda template: template.pieces(values, bundle))
    predefined: dict[str, Pieces] = {
        name: (value,) for name, value in _predefined_roots(state).items()
    }
    predefined[_CHAIN] = (_OWN_CERT, _coordinators_pem(state.keys.intermediate_cert))
    predefined[_KEY] = (_OWN_KEY,)
    return Present(files, env, predefined, recipe.marble.parameters.argv)


_OWN_CERT: Final = TemplateCall("pem", TemplateSource.MARBLERUN, "MarbleCert", "Cert")
_OWN_KEY: Final = TemplateCall("pem", TemplateSource.MARBLERUN, "MarbleCert", "Private")


def _values(
    state: Running, recipe: Recipe, joining: Joining, secrets: Mapping[str, StoredSecret]
) -> Values:
    return Values(
        marblerun=_reserved(state, joining.leaf),
        secrets=secrets,
        previous=_secret_values(state, recipe, joining, _previous(state, recipe)),
    )


def _filled(recipe: Recipe, fill: Callable[[Template], T]) -> tuple[dict[str, T], dict[str, T]]:
    """Return files and variables of the marble type in ``recipe``.

    ``fill`` returns the content of a template.
    """
    place = ("Marbles", recipe.marble_type, "Parameters")
    files = {
        path: _rendered(fill, template, (*place, "Files", path))
        for path, template in recipe.templates.files.items()
    }
    env = {
        name: _rendered(fill, template, (*place, "Env", name))
        for name, template in recipe.templates.env.items()
    }
    return files, env


class _Source(msgspec.Struct, frozen=True):
    """The source of secret values, for ``.Secrets`` or ``.Previous.Secrets`` in templates."""

    used: Mapping[str, SecretDefinition]
    stored: Callable[[str], StoredSecret | None]
    root_secret: Secret
    sizes: Mapping[str, int]  # bits of derived keys with a size unlike the definition


def _current(state: Running, recipe: Recipe) -> _Source:
    return _Source(recipe.secrets, state.secrets.get, state.keys.root_secret, {})


def _previous(state: Running, recipe: Recipe) -> _Source:
    def stored(name: str) -> StoredSecret | None:
        # Before the first update the previous value is the value, even if it was uploaded later.
        return state.previous.get(name) or state.secrets.get(name)

    return _Source(recipe.previous, stored, state.previous_root_secret, state.previous_sizes)


def _secret_values(
    state: Running, recipe: Recipe, joining: Joining, source: _Source
) -> dict[str, StoredSecret]:
    """Return the values of the secrets in ``source`` for the workload ``joining``, by name.

    Keys of the workload are derived and its certificates are generated here. A secret without an
    uploaded value is missing in the result.
    """
    values: dict[str, StoredSecret] = {}
    for name, definition in source.used.items():
        if definition.user_defined or definition.shared:
            value = source.stored(name)
        elif definition.type is SecretType.SYMMETRIC_KEY:
            value = _derived(name, definition, recipe, joining, source)
        else:
            value = _generated(name, definition, joining, state)
        if value is not None:
            values[name] = value
    return values


def _derived(
    name: str, definition: SecretDefinition, recipe: Recipe, joining: Joining, source: _Source
) -> StoredSecret:
    key = derive_marble_key(
        source.root_secret,
        marble=joining.marble,
        marble_type=recipe.marble_type,
        secret_name=name,
        bits=source.sizes.get(name, definition.size),
        bind_to_type=not recipe.marble.disable_secret_binding,
    )
    return StoredSecret(private=key, public=key)


def _generated(
    name: str, definition: SecretDefinition, joining: Joining, state: Running
) -> StoredSecret:
    from keyhouse.authority import generate  # a start does not need this import

    try:
        return generate(definition, name=name, keys=state.keys, now=joining.now)
    except InvalidError as refused:
        raise ConflictError(
            refused.message, hint="update the definition of the secret in the manifest"
        ) from None


def _reserved(state: Running, leaf: StoredSecret) -> dict[str, StoredSecret]:
    keys = state.keys
    return {
        "RootCA": _certificate(keys.marble_root_cert),
        "MarbleCert": leaf,
        "CoordinatorRoot": _certificate(keys.root_cert),
        "CoordinatorIntermediate": _certificate(keys.intermediate_cert),
    }


def _certificate(der: bytes) -> StoredSecret:
    return StoredSecret(private=_NOTHING, public=_NOTHING, cert=der)


_NOTHING: Final = Secret(b"")


def _rendered(fill: Callable[[Template], T], template: Template, place: tuple[str, ...]) -> T:
    try:
        return fill(template)
    except MissingValueError as missing:
        raise ConflictError(
            f"secret {quoted(missing.call.name)} has no value yet; {at(*place)} needs the value",
            hint="upload the value with keyhouse secret set",
        ) from None
    except BadRequestError as refused:
        raise ConflictError(f"{at(*place)}: {refused.message}", hint=refused.hint) from None


def _predefined(state: Running, leaf: StoredSecret) -> dict[str, bytes]:
    """Return the variables that every workload gets. They override variables of the manifest.

    ``leaf``: the certificate and key of the workload.
    """
    own = certificate_pem(leaf.cert).encode()
    return {
        **_predefined_roots(state),
        _CHAIN: own + _coordinators_pem(state.keys.intermediate_cert),
        _KEY: private_key_pem(leaf.private).encode(),
    }


def _predefined_roots(state: Running) -> dict[str, bytes]:
    return {
        "MARBLE_PREDEFINED_ROOT_CA": _coordinators_pem(state.keys.marble_root_cert),
        "MARBLE_PREDEFINED_COORDINATOR_ROOT_CA": _coordinators_pem(state.keys.root_cert),
    }


_CHAIN: Final = "MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN"
_KEY: Final = "MARBLE_PREDEFINED_PRIVATE_KEY"


@lru_cache(maxsize=8)
def _coordinators_pem(der: bytes) -> bytes:
    """Return ``der``, a certificate of the coordinator, in PEM.

    The result is cached, because every answer contains such a certificate.
    """
    return certificate_pem(der).encode()


def _tls_config(
    recipe: Recipe, *, leaf: StoredSecret, secrets: Mapping[str, StoredSecret], marble_root: bytes
) -> bytes:
    """Return the settings of transparent TLS as JSON, for a marble type with TLS tags.

    The text contains private keys. ``leaf``: certificate and key of the workload. ``marble_root``:
    DER. Raises ``ConflictError`` if the certificate or key of a port has no value yet.
    """
    trusted = certificate_pem(marble_root)
    own = _entry(trusted, leaf)
    incoming: dict[str, dict[str, Any]] = {}
    for entry in recipe.incoming:
        served = own
        if entry.cert:
            served = _entry(trusted, _complete(entry.cert, secrets.get(entry.cert)))
        incoming[f"*:{entry.port}"] = {**served, "clientAuth": not entry.disable_client_auth}
    outgoing = {f"{entry.addr}:{entry.port}": own for entry in recipe.outgoing}
    return msgspec.json.encode({"tls": {"Incoming": incoming, "Outgoing": outgoing}})


def _entry(trusted: str, identity: StoredSecret) -> dict[str, str]:
    return {
        "cacrt": trusted,
        "clicrt": certificate_pem(identity.cert),
        "clikey": private_key_pem(identity.private),
    }


def _complete(name: str, value: StoredSecret | None) -> StoredSecret:
    if value is None or not (value.cert and value.private):
        raise ConflictError(
            f"secret {quoted(name)} of a TLS port has no certificate or no key yet",
            hint="upload both with keyhouse secret set",
        )
    return value
