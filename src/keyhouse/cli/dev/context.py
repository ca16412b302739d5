"""The context of a development coordinator, stored while the coordinator runs.

With this context, commands need no options to find and verify the coordinator.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import NamedTuple

from keyhouse.cli.dev.folder import USER, Folder
from keyhouse.client import contexts


class ActiveContext(NamedTuple):
    """The name of a context. If ``is_in_use``, commands without ``--context`` use this context."""

    name: str
    is_in_use: bool


def context_for(folder: Folder, address: str, *, has_user: bool) -> contexts.SavedContext:
    """Return the context of the coordinator at ``address`` with its files in ``folder``.

    With ``has_user``, the context also names the certificate and the key of the user ``dev``.
    """
    cert, key = (folder.certificate, folder.key) if has_user else (None, None)
    return contexts.SavedContext(
        address=address,
        attestation=str(folder.attestation.absolute()),
        simulation_root=str(folder.simulation_root.absolute()),
        memory=str(folder.memory.absolute()),
        cert=str(cert.absolute()) if cert else "",
        key=str(key.absolute()) if key else "",
        witness_policy=str(folder.policy.absolute()) if folder.witnesses.exists() else "",
    )


@contextmanager
def in_contexts(context: contexts.SavedContext) -> Iterator[ActiveContext]:
    """Store ``context`` among the user's contexts during the block; yield its name.

    The name is ``dev``, or ``dev-2`` and so on if a different deployment has the name. A context
    that remained from an earlier run in the same folder is replaced. Without a context in use,
    ``context`` becomes the context in use. Raises ``ContextUnusableError``.
    """
    path = contexts.own_contexts_path()
    names: list[str] = []

    def add(known: contexts.Contexts) -> contexts.Contexts:
        candidates = (USER if number == 1 else f"{USER}-{number}" for number in count(1))
        names.append(next(each for each in candidates if _is_free(each, known, context)))
        return contexts.Contexts(known.current or names[0], {**known.contexts, names[0]: context})

    def remove(known: contexts.Contexts) -> contexts.Contexts:
        if known.contexts.get(names[0]) != context:
            return known  # the user has changed the context
        rest = {name: each for name, each in known.contexts.items() if name != names[0]}
        return contexts.Contexts("" if known.current == names[0] else known.current, rest)

    current = contexts.change(path, add).current
    try:
        used = os.environ.get("KEYHOUSE_CONTEXT", "") or current
        yield ActiveContext(names[0], is_in_use=used == names[0])
    finally:
        # A context that stays names no running coordinator. The next start replaces the context.
        with suppress(contexts.ContextUnusableError):
            contexts.change(path, remove)


def _is_free(name: str, known: contexts.Contexts, context: contexts.SavedContext) -> bool:
    context_there = known.contexts.get(name)
    return context_there is None or context_there.attestation == context.attestation
