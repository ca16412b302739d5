"""OpenSSL through ``cryptography``: the only file that uses unpromised names of the libraries.

pyOpenSSL's own connections have no public way for three needs of TLS here: a common read buffer of
all connections, a check of a client's key, and the list of groups. So sessions use OpenSSL's
functions. The functions come from the binding of ``cryptography`` by its public name, but each
version may have other functions. The pointer of a pyOpenSSL context has a private name only.
``tests/server/net/test_openssl_binding.py`` fails if a version changes either.
"""

from typing import Any

from cryptography.hazmat.bindings.openssl.binding import Binding
from OpenSSL import SSL

ffi: Any = Binding.ffi
lib: Any = Binding().lib


def pointer(context: SSL.Context) -> Any:
    """Return the ``SSL_CTX *`` of ``context``. The pointer is valid as long as ``context``."""
    return context._context  # noqa: SLF001 - there is no public way, see above
