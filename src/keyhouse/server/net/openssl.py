"""OpenSSL as ``cryptography`` binds it: the one file that uses what the libraries do not promise.

pyOpenSSL's own connections have no public way to what TLS here needs: reading into one buffer of
all connections, a verdict on a client's key, the list of groups. So sessions are made of OpenSSL's
functions. They come from the binding of ``cryptography`` by its public name, but which of them it
has may change with a version; and a context of pyOpenSSL gives its pointer by a private name only.
``tests/server/net/test_openssl_binding.py`` fails where a version changes either.
"""

from typing import Any

from cryptography.hazmat.bindings.openssl.binding import Binding
from OpenSSL import SSL

ffi: Any = Binding.ffi
lib: Any = Binding().lib


def pointer(context: SSL.Context) -> Any:
    """Return the ``SSL_CTX *`` of ``context``, which lives no longer than that."""
    return context._context  # noqa: SLF001 - there is no public way, see above
