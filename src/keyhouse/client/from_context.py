"""Everything that a session needs, from a context of ``keyhouse context``."""

from pathlib import Path

import msgspec

from keyhouse.base.secret import Secret
from keyhouse.client.contexts import Context, ContextUnusableError, chosen_context
from keyhouse.client.errors import ClientSetupError
from keyhouse.client.identity import ClientIdentity, UserIdentity, read_pem, read_pkcs12
from keyhouse.client.log_policy import LOG_MAX_AGE
from keyhouse.client.memory.file import chosen_memory
from keyhouse.client.memory.states import StateMemory
from keyhouse.client.pem_faults import is_encrypted
from keyhouse.client.tokens.config import read_key_id, read_token_file
from keyhouse.client.tokens.identity import TokenIdentity, read_token
from keyhouse.client.trust import Trust
from keyhouse.client.trust_files import read_named

User = UserIdentity | TokenIdentity
"""A user, with a key that CPython's TLS can use or with one that stays on a token."""


class Described(msgspec.Struct, frozen=True):
    """A deployment as one user sees it."""

    address: str
    trust: Trust
    user: User | None
    memory: StateMemory | None


def described(
    name: str = "", password: Secret | None = None, *, anonymous: bool = False
) -> Described:
    """Return what the context ``name`` describes; else that of KEYHOUSE_CONTEXT or the one in use.

    ``password``: of the user's key, PKCS #12 file or token. ``anonymous``: without the user, whose
    files are not read. Raises ``ContextUnusableError``, and
    ``RefusedError`` for files that cannot be used. It reads files, so it may block.
    """
    named = chosen_context(name)
    if named is None:
        raise ContextUnusableError(
            "no context is in use", hint="name one; keyhouse context list shows all"
        )
    context = named.context
    for field in ("address", "attestation"):
        if not getattr(context, field):
            raise ContextUnusableError(
                f"the context {named.name!r} has no {field}",
                hint=f"keyhouse context add {named.name} --replace ... --{field} ...",
            )
    trust = Trust.from_files(
        context.attestation,
        simulation_root=context.simulation_root,
        collateral=context.collateral,
        pccs=context.pccs,
        pccs_ca=context.pccs_ca,
        accepted_tcb_statuses=_entries(context.accepted_tcb_statuses),
        accepted_advisories=_entries(context.accepted_advisories),
        witness_policy=context.witness_policy,
        log_max_age=context.log_age or LOG_MAX_AGE,
        first_manifest=context.first_manifest,
        manifests=context.judged_manifests,
    )
    user = None if anonymous else _user(context, password)
    return Described(context.address, trust, user, chosen_memory(context.memory))


def _entries(kept: tuple[str, ...]) -> list[str]:
    """Return the entries of a list, several of which may stand between commas."""
    found = [each.strip() for text in kept for each in text.split(",") if each.strip()]
    if kept and not found:
        raise ContextUnusableError("a list of what the context accepts is empty")
    return found


def _user(context: Context, password: Secret | None) -> User | None:
    """Return the user; None: anonymous."""
    match context.user_is_on:
        case "files":
            key = Secret(read_named(context.key))
            if password is not None and is_encrypted(key.reveal()):
                return read_pem(read_named(context.cert), key, password)
            return ClientIdentity(Path(context.cert), Path(context.key))
        case "pkcs12":
            return read_pkcs12(Secret(read_named(context.pkcs12)), password)
        case "token":
            return _on_token(context, password)
        case "":
            return None


def _on_token(context: Context, password: Secret | None) -> TokenIdentity:
    file = read_token_file(read_named(context.pkcs11_config), context.pkcs11_config)
    pin = Secret(file.pin.encode()) if file.pin else password
    if pin is None:
        raise ClientSetupError(
            "there is no PIN", hint=f"give a password, or Pin in {context.pkcs11_config}"
        )
    try:
        key_id = read_key_id(context.pkcs11_key_id)
    except ValueError:
        raise ClientSetupError("the id of the key in the context is not in hex") from None
    return read_token(
        Path(file.path),
        token=file.token,
        pin=pin,
        label=context.pkcs11_key_label,
        key_id=key_id,
        certificate=read_named(context.cert) if context.cert else None,
    )
