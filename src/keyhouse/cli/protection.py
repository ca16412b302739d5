"""The protection of a coordinator against a rollback: the remaining danger, and the witnesses."""

from typing import TYPE_CHECKING, Final, NamedTuple

from keyhouse.base.errors import InvalidError

if TYPE_CHECKING:
    from keyhouse.client import Coordinator
    from keyhouse.views.witnesses import Witnesses
    from keyhouse.wire.client_api import Status

RUNNING: Final = 3
"""The code of the phase in which a manifest is in force."""


class Protection(NamedTuple):
    """The protection of a coordinator against a rollback by its host.

    ``note`` states the danger that remains, or is "" without a danger. ``witnesses`` is None if
    the manifest names no witnesses.
    """

    note: str = ""
    witnesses: "Witnesses | None" = None

    def rows(self) -> dict[str, str]:
        """Return the protection against a rollback as rows for people."""
        from keyhouse.views.witnesses import witness_rows

        rows = {"rollback": self.note} if self.note else {}
        return rows | (witness_rows(self.witnesses) if self.witnesses else {})


def protection_of(coordinator: "Coordinator", status: "Status") -> Protection:
    """Request and return the protection of ``coordinator``; ``status`` is its present status.

    Without a manifest in force, the result is empty. Raises ``TrustError`` for a manifest, a log or
    a cosignature that does not verify.
    """
    if status.code != RUNNING:
        return Protection()
    return protection_under(coordinator.manifest().manifest, coordinator, status)


def protection_under(raw: bytes, coordinator: "Coordinator", status: "Status") -> Protection:
    """Return the protection of ``coordinator`` under ``raw``, the manifest in force.

    ``status``, the present status, has the lease. Raises ``TrustError`` for a log or a cosignature
    that does not verify.
    """
    from keyhouse.manifest import decode
    from keyhouse.views.witnesses import witnesses_of

    try:
        manifest = decode(raw)
    except InvalidError:  # the manifest of a later version
        return Protection("unknown: this version cannot read the manifest")
    witnesses = witnesses_of(coordinator, manifest, status.lease)
    return Protection(manifest.config.rollback_note, witnesses)
