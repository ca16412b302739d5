"""Reads and writes of secrets by users."""

from asyncio import Future
from collections.abc import Callable, Collection, Mapping
from typing import Final

from keyhouse.authority import StoredSecret
from keyhouse.base.errors import InvalidError, Problem
from keyhouse.coordinator import Decision, Engine, Operation, UploadSecrets, View, policy_of
from keyhouse.manifest import Action
from keyhouse.server.services.preparation import Preparation
from keyhouse.wire.secret_types import SecretDefinition, UserSecret

_HINT: Final = "send at least one secret by its name"


def read_secrets(
    view: View, identity: bytes | None, names: Collection[str]
) -> dict[str, tuple[SecretDefinition, StoredSecret | None]]:
    """Return the definitions of the secrets, and their values; None before an upload.

    Raises ``UnauthenticatedError`` or ``ForbiddenError`` unless the caller may read all of them.
    """
    state = view.running
    policy = policy_of(state.manifest)
    policy.authorize(identity, Action.READ_SECRET, names)
    definitions = policy.manifest.secrets
    return {name: (definitions[name], state.secrets.get(name)) for name in names}


class SecretWrites:
    """Stores uploads of users through ``engine``."""

    def __init__(self, engine: Engine, preparation: Preparation) -> None:
        self._engine = engine
        self._preparation = preparation

    def prepared(
        self, identity: bytes | None, read: Callable[[], Mapping[str, UserSecret]], within: str
    ) -> UploadSecrets:
        """Return the change that stores the uploads of ``read``, all or nothing.

        ``within`` is the prefix of places in findings. Any thread may call this.
        """
        from keyhouse.coordinator import prepare_upload

        state = self._engine.view.running_for(Operation.WRITE_SECRETS)
        uploads = read()
        if not uploads:
            raise InvalidError("the upload", [Problem(within, "is missing or empty", _HINT)])
        return prepare_upload(state, identity, uploads, within=within)

    def submitted(self, command: UploadSecrets) -> "Future[Decision]":
        """Return the result of the prepared ``command``, in the form of ``Engine.decision``."""
        return self._engine.queue.add(command)

    async def write(self, prepare: Callable[[], UploadSecrets]) -> View:
        """Store the uploads of ``prepare``, which runs in a thread. Return the view with them."""
        _, view = await self._preparation.submitted(prepare)
        return view
