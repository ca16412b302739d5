"""The context of a development coordinator: there while it runs, so that commands are short."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import NamedTuple

from keyhouse.cli.dev.folder import USER, Folder
from keyhouse.client import contexts


class Named(NamedTuple):
    """A context, and whether commands without ``--context`` are in it."""

    name: str
    is_in_use: bool


def context_for(folder: Folder, address: str, *, has_user: bool) -> contexts.Context:
    """Return the context of the coordinator at ``address``; with the user ``dev``, if it has."""
    cert, key = (folder.certificate, folder.key) if has_user else (None, None)
    return contexts.Context(
        address=address,
        attestation=str(folder.attestation.absolute()),
        simulation_root=str(folder.simulation_root.absolute()),
        memory=str(folder.memory.absolute()),
        cert=str(cert.absolute()) if cert else "",
        key=str(key.absolute()) if key else "",
    )


@contextmanager
def in_contexts(context: contexts.Context) -> Iterator[Named]:
    """Have ``context`` among the user's until the block is left; yield its name.

    That is ``dev``, or ``dev-2`` and so on if another deployment has the name: nothing that is
    there is replaced, but for what an earlier run in the same folder could not remove. It is in use
    if no other is. Raises ``ContextUnusableError``.
    """
    path = contexts.own_contexts_path()
    names: list[str] = []

    def add(known: contexts.Contexts) -> contexts.Contexts:
        candidates = (USER if number == 1 else f"{USER}-{number}" for number in count(1))
        names.append(next(each for each in candidates if _is_free(each, known, context)))
        return contexts.Contexts(known.current or names[0], {**known.contexts, names[0]: context})

    def remove(known: contexts.Contexts) -> contexts.Contexts:
        if known.contexts.get(names[0]) != context:
            return known  # someone has changed it
        rest = {name: each for name, each in known.contexts.items() if name != names[0]}
        return contexts.Contexts("" if known.current == names[0] else known.current, rest)

    current = contexts.change(path, add).current
    try:
        named = os.environ.get("KEYHOUSE_CONTEXT", "") or current
        yield Named(names[0], is_in_use=named == names[0])
    finally:
        with suppress(
            contexts.ContextUnusableError
        ):  # it names nothing that exists; the next start replaces it
            contexts.change(path, remove)


def _is_free(name: str, known: contexts.Contexts, context: contexts.Context) -> bool:
    found = known.contexts.get(name)
    return found is None or found.attestation == context.attestation
