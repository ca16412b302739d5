"""The results of a user's actions, which pages show after a redirect.

The console stores results in its memory. So a reload of a result's page does not repeat the action.
A result with new recovery secrets stays until their download. The secrets are encrypted for their
holders.
"""

import secrets
from datetime import datetime
from typing import Final, Literal

import msgspec

from keyhouse.base.errors import NotFoundError

_KEPT: Final = 16  # results of changes in memory, chosen
# Bytes of random in the name of a result, so that names do not repeat.
_BYTES: Final = 9

Kind = Literal["in-force", "approved", "proposed", "cancelled", "uploaded", "revoked", "unfinished"]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an action by ``user`` at the time ``at`` (UTC).

    The kind ``unfinished`` means that the coordinator sent new recovery secrets, and a later step
    failed.
    """

    kind: Kind
    at: datetime
    user: str
    # SHA-256 of the manifest, hex.
    fingerprint: str = ""
    # Users who agreed, by the list of the coordinator and the answer to this user.
    agreed: tuple[str, ...] = ()
    # Users whose signature in the log the console has verified.
    signed: frozenset[str] = frozenset()
    # Number of missing agreements, and the users who may give them.
    missing: int = 0
    missing_users: tuple[str, ...] = ()
    # The digest of the plan, for other approvers.
    plan: str = ""
    # Encrypted recovery secrets by the name of the key. Empty: the old shares stay valid.
    recovery_secrets: dict[str, bytes] = {}
    # The name of the uploaded secret, and the number of its bytes.
    secret: str = ""
    # Of a revocation the number of workloads.
    size: int = 0
    # The object of a revocation, in words, and the time until others accept its certificates.
    revoked: str = ""
    ends: str = ""
    # Whether a quorum of the witnesses has cosigned, and the warning of the coordinator, or "".
    witnessed: bool = False
    warning: str = ""


class Results:
    """The newest results for a deployment. A random name in the page's address finds a result."""

    def __init__(self) -> None:
        self._results: dict[str, Result] = {}
        self._unsaved: set[str] = set()

    def add(self, result: Result) -> str:
        """Store ``result``, and return its name.

        With more than 16 results, the oldest result is removed. A result with recovery secrets
        stays until their download.
        """
        name = secrets.token_urlsafe(_BYTES)
        self._results[name] = result
        if result.recovery_secrets:
            self._unsaved.add(name)
        if len(self._results) > _KEPT:
            oldest = next((each for each in self._results if each not in self._unsaved), name)
            if oldest != name:
                del self._results[oldest]
        return name

    def find(self, name: str) -> Result:
        """Return the result ``name``. Raises ``NotFoundError`` if it was removed."""
        found = self._results.get(name)
        if found is None:
            raise NotFoundError(
                "the console does not have this result any more",
                hint="find the change on the page History",
            )
        return found

    def replace(self, name: str, result: Result) -> None:
        """Replace the result ``name`` by ``result``."""
        self._results[name] = result

    def is_unsaved(self, name: str) -> bool:
        """Return whether the result ``name`` has recovery secrets that are not downloaded yet."""
        return name in self._unsaved

    def mark_saved(self, name: str) -> None:
        """Record the download of the recovery secrets in the result ``name``."""
        self._unsaved.discard(name)

    @property
    def unsaved(self) -> str:
        """The name of the newest result with recovery secrets before their download, or ""."""
        return next((each for each in reversed(self._results) if each in self._unsaved), "")


class Draft:
    """The ``text`` of a proposal in the editor, and the text ``before`` the last replacement.

    A manifest can contain values of secrets, so the console never writes a draft to a disk.
    """

    def __init__(self) -> None:
        self.text = ""
        self.before = ""

    def put(self, text: str) -> None:
        """Store ``text``, the editor's content, with LF in place of the browser's CR LF."""
        self.text = text.replace("\r\n", "\n")

    def replace(self, text: str) -> None:
        """Store ``text`` as the draft. ``before`` then has the replaced text, for an undo."""
        self.before, self.text = self.text, text
