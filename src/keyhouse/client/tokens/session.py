"""A session with a PKCS #11 token. Needs the extra ``keyhouse[pkcs11]`` and the token's library."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from keyhouse.base.secret import Secret
from keyhouse.client.errors import ClientSetupError

LOOK: Final = "list the objects on the token: pkcs11-tool --list-objects"


@contextmanager
def open_token(library: Path, token: str, pin: Secret) -> Iterator[Any]:
    """Log in to the token with the label ``token``, and yield the session for this thread.

    ``library`` is the PKCS #11 module of the token. Raises ``ClientSetupError``. Messages never
    contain the PIN.
    """
    try:
        with _opened(library, token, pin) as session:
            yield session
    finally:
        _forget_errors()


def _opened(library: Path, token: str, pin: Secret) -> Any:
    try:
        import pkcs11
    except ImportError:
        raise ClientSetupError(
            "keys and certificates on tokens need python-pkcs11",
            hint="install the package beside Keyhouse: pip install python-pkcs11",
        ) from None
    try:
        module = pkcs11.lib(str(library))
    except (pkcs11.PKCS11Error, RuntimeError):
        raise ClientSetupError(
            f"the token's PKCS #11 library {library} cannot be loaded",
            hint="check the path, and that the library is for this machine's architecture",
        ) from None
    try:
        return module.get_token(token_label=token).open(user_pin=pin.reveal().decode())
    except (pkcs11.PKCS11Error, RuntimeError, UnicodeDecodeError) as error:
        raise ClientSetupError(
            f"the token {token!r} cannot be opened ({type(error).__name__})",
            hint="check the label of the token and the PIN",
        ) from None


def _forget_errors() -> None:
    """Empty OpenSSL's error queue of this thread, which a token's module may share with ``ssl``.

    SoftHSM leaves an error there after a wrong PIN, and ``ssl`` would raise that error for the next
    operation of this thread. ``ssl`` has no function to empty the queue. But ``ssl`` empties the
    queue when it raises an error.
    """
    with suppress(ssl.SSLError):
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=b"no certificate")
