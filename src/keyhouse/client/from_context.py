"""Read the arguments of a session from a context of ``keyhouse context``."""

from pathlib import Path

import msgspec

from keyhouse.base.secret import Secret
from keyhouse.client.contexts import ContextUnusableError, SavedContext, chosen_context
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
"""A user. CPython's TLS can load the key, or the key stays on a token."""


class SelectedContext(msgspec.Struct, frozen=True):
    """The arguments of a session, as a context states them. ``user`` None: anonymous calls."""

    address: str
    trust: Trust
    user: User | None
    memory: StateMemory | None


def described(
    name: str = "", password: Secret | None = None, *, anonymous: bool = False
) -> SelectedContext:
    """Return address, trust, user and memory from the context ``name``.

    Without a name, the context of KEYHOUSE_CONTEXT applies, or else the current context.
    ``password`` decrypts the user's key or PKCS #12 file, or opens the token. If ``anonymous``, the
    user's files are not read and the result has no user.

    Raises ``ContextUnusableError`` for the context, and ``RefusedError`` for unusable files. The
    function reads files, so it may block.
    """
    named = chosen_context(name)
    if named is None:
        raise ContextUnusableError(
            "no context is in use",
            hint="start a coordinator with a context: keyhouse dev; or select a context:"
            " keyhouse context use NAME",
        )
    context = named.context
    for field in ("address", "attestation"):
        if not getattr(context, field):
            raise ContextUnusableError(
                f"the context {named.name!r} has no {field}, but needs the {field}",
                hint=f"write the context again: keyhouse context add {named.name} --replace ..."
                f" --{field} ...",
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
    return SelectedContext(context.address, trust, user, chosen_memory(context.memory))


def _entries(texts: tuple[str, ...]) -> list[str]:
    """Return the entries of a list in a context. Commas separate several entries in a text."""
    entries = [each.strip() for text in texts for each in text.split(",") if each.strip()]
    if texts and not entries:
        raise ContextUnusableError(
            "accepted-tcb-statuses or accepted-advisories in the context is empty, but must have an"
            " entry"
        )
    return entries


def _user(context: SavedContext, password: Secret | None) -> User | None:
    """Return the user of ``context``, or None for anonymous calls.

    ``password`` decrypts the user's key or PKCS #12 file, or opens the token.
    """
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


def _on_token(context: SavedContext, password: Secret | None) -> TokenIdentity:
    file = read_token_file(read_named(context.pkcs11_config), context.pkcs11_config)
    pin = Secret(file.pin.encode()) if file.pin else password
    if pin is None:
        raise ClientSetupError(
            "the user's token needs a PIN, but no PIN was passed",
            hint=f"pass the PIN as password, or set Pin in {context.pkcs11_config}",
        )
    try:
        key_id = read_key_id(context.pkcs11_key_id)
    except ValueError:
        raise ClientSetupError(
            "pkcs11-key-id in the context must be hex digits",
            hint="correct pkcs11-key-id in the context",
        ) from None
    return read_token(
        Path(file.path),
        token=file.token,
        pin=pin,
        label=context.pkcs11_key_label,
        key_id=key_id,
        certificate=read_named(context.cert) if context.cert else None,
    )
