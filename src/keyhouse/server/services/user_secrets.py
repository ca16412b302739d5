"""Secrets as users read and write them."""

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
    """Return how the secrets are defined, and their values: None for one not uploaded yet.

    Raises ``UnauthenticatedError`` or ``ForbiddenError`` unless the caller may read every one of
    them.
    """
    state = view.running
    policy = policy_of(state.manifest)
    policy.authorize(identity, Action.READ_SECRET, names)
    definitions = policy.manifest.secrets
    return {name: (definitions[name], state.secrets.get(name)) for name in names}


class SecretWrites:
    """Stores on ``engine`` what users upload."""

    def __init__(self, engine: Engine, preparation: Preparation) -> None:
        self._engine = engine
        self._preparation = preparation

    def prepared(
        self, identity: bytes | None, read: Callable[[], Mapping[str, UserSecret]], within: str
    ) -> UploadSecrets:
        """Return the change that stores the uploads that ``read`` returns, all or nothing.

        ``within`` is what findings name as the place of the uploads, empty for none. It may be
        called on any thread.
        """
        from keyhouse.coordinator import prepare_upload

        state = self._engine.view.running_for(Operation.WRITE_SECRETS)
        uploads = read()
        if not uploads:
            raise InvalidError("the upload", [Problem(within, "is missing or empty", _HINT)])
        return prepare_upload(state, identity, uploads, within=within)

    def submitted(self, command: UploadSecrets) -> "Future[Decision]":
        """Return the result of ``command``, prepared just now, as ``Engine.decision``."""
        return self._engine.decision(command)

    async def write(self, prepare: Callable[[], UploadSecrets]) -> View:
        """Store what ``prepare`` returns, which is called on a thread; return the view with it."""
        _, view = await self._preparation.submitted(prepare)
        return view
