"""Secrets as users read and write them."""

from collections.abc import Callable, Collection, Mapping
from typing import Final

from keyhouse.authority import StoredSecret
from keyhouse.base.errors import InvalidError, Problem
from keyhouse.coordinator import (
    Engine,
    Operation,
    UploadSecrets,
    View,
    policy_of,
    prepare_upload,
    require,
)
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

    async def write(
        self,
        identity: bytes | None,
        read: Callable[[], Mapping[str, UserSecret]],
        *,
        within: str,
        off_loop: bool,
    ) -> View:
        """Store the uploads that ``read`` returns, all or nothing; return the view with them.

        ``within`` is what findings name as the place of the uploads, empty for none. With
        ``off_loop`` they are read and checked on a thread.
        """

        def prepare() -> UploadSecrets:
            view = self._engine.view
            require(Operation.WRITE_SECRETS, view.phase)
            uploads = read()
            if not uploads:
                raise InvalidError("the upload", [Problem(within, "is missing or empty", _HINT)])
            return prepare_upload(view.running, identity, uploads, within=within)

        _, view = await self._preparation.submitted(prepare, off_loop=off_loop)
        return view
