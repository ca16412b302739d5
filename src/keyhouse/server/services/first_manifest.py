"""Sets the first manifest. Everybody may upload it, and the uploads are handled one at a time."""

from collections.abc import Callable
from typing import Final

import msgspec

from keyhouse.base.log import log
from keyhouse.coordinator import (
    Engine,
    Operation,
    Running,
    SetManifest,
    View,
    phase_of,
    policy_of,
    require,
)
from keyhouse.server.net.concurrency import ConcurrencyLimit, FairQueue
from keyhouse.server.services.preparation import Preparation
from keyhouse.server.services.recovery import RecoverySession

WAITING: Final = 12_000
"""Largest number of waiting first manifests. Everybody may upload a first manifest.

The number equals the largest number of connections, and connections take turns.
"""


class Enforced(msgspec.Struct, frozen=True):
    """The result of an upload of the first manifest: the manifest is in force."""

    view: View
    recovery_secrets: dict[str, bytes]  # encrypted, by the name of the recovery key
    warnings: tuple[str, ...]  # for the users of the manifest


class FirstManifest:
    """Sets the first manifest of a deployment on ``engine``.

    In recovery mode, this manifest begins a new deployment. So each success ends the session
    ``recovery``, which drops all submitted shares.
    """

    def __init__(
        self,
        engine: Engine,
        preparation: Preparation,
        recovery: RecoverySession | None = None,
    ) -> None:
        self._engine = engine
        self._preparation = preparation
        self._recovery = recovery
        limit = ConcurrencyLimit(WAITING + 1, "other manifests are being prepared")
        self._queue = FairQueue(limit)

    async def set(self, read: Callable[[], bytes]) -> Enforced:
        """Return after the manifest that ``read`` returns is in force.

        A thread calls ``read`` when it is this caller's turn. If the caller disconnects before its
        turn, there is no effect. A started attempt continues to its end.

        Raises:
            WrongPhaseError, ForbiddenError, InvalidError: the manifest is refused.
            UnavailableError: too many callers wait, or the clock is not trusted.
        """
        return await self._queue.run(lambda: self._set(read))

    async def _set(self, read: Callable[[], bytes]) -> Enforced:
        command, view = await self._submitted(read)
        if self._recovery is not None:
            self._recovery.end()
        warnings = (*map(str, command.warnings), *policy_of(command.manifest).caveats)
        for warning in warnings:
            log.warning("the manifest was accepted with a warning", warning=warning)
        return Enforced(view, command.recovery.ciphertexts, warnings)

    async def _submitted(self, read: Callable[[], bytes]) -> tuple[SetManifest, View]:
        engine, raw = self._engine, await self._preparation.off_loop(read)

        def prepare() -> SetManifest:
            from keyhouse.coordinator import prepare_manifest

            state = engine.view.state
            require(Operation.SET_MANIFEST, phase_of(state))
            assert not isinstance(state, Running)  # noqa: S101 the table says so
            engine.process.first_manifest.require(state, raw)
            engine.current.clock.require_near()
            return prepare_manifest(state, raw, now=engine.current.now())

        return await self._preparation.submitted(prepare)
