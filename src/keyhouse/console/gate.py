"""Who may use the console: the browser that opened the link of its terminal, on this machine.

A link works once. It becomes a cookie, which ends when nobody has done anything for a while.
"""

import hmac
import secrets
from collections.abc import Callable
from typing import Final

_BYTES: Final = 32  # of random in a token


class Session:
    """One browser that has opened a link. ``csrf`` is what its forms must send back."""

    __slots__ = ("cookie", "csrf", "used")

    def __init__(self, now: float) -> None:
        self.cookie = secrets.token_urlsafe(_BYTES)
        self.csrf = secrets.token_urlsafe(_BYTES)
        self.used = now


class Gate:
    """The links that are open, and the sessions that came from them.

    ``idle``: seconds after which a session that nobody uses ends. ``clock``: monotonic seconds.
    """

    def __init__(self, idle: float, clock: Callable[[], float]) -> None:
        self.idle = idle
        self._clock = clock
        self._link = ""
        self._sessions: list[Session] = []

    def new_link(self) -> str:
        """Return the token of a new link. It replaces one that nobody has opened."""
        self._link = secrets.token_urlsafe(_BYTES)
        return self._link

    def open(self, token: str) -> Session | None:
        """Return a new session if ``token`` is that of the link, which then works no more."""
        if not self._link or not _same(token, self._link):
            return None
        self._link = ""
        session = Session(self._clock())
        self._sessions = [session]  # a second browser ends the first one's session
        return session

    def session(self, cookie: str, *, is_activity: bool) -> Session | None:
        """Return the session of ``cookie``, if it has not ended.

        ``is_activity``: a person did something, so the session is used.
        """
        now = self._clock()
        self._sessions = [each for each in self._sessions if now - each.used < self.idle]
        for each in self._sessions:
            if _same(cookie, each.cookie):
                if is_activity:
                    each.used = now
                return each
        return None

    def is_csrf(self, session: Session, token: str) -> bool:
        """Tell whether ``token`` is the one that forms of ``session`` send back."""
        return _same(token, session.csrf)

    def lock(self) -> None:
        """End all sessions."""
        self._sessions = []

    @property
    def is_locked(self) -> bool:
        """Whether nobody has a session, and no link is open."""
        now = self._clock()
        return not self._link and not any(now - each.used < self.idle for each in self._sessions)


def _same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), known.encode())
