"""What libraries do not promise, and the server uses: a version that changes it is seen."""

import ast
import re
from pathlib import Path
from typing import Final

from cryptography.hazmat.bindings.openssl.binding import Binding
from OpenSSL import SSL

import keyhouse
from keyhouse.server.net import tls

SOURCES: Final = Path(keyhouse.__file__).parent
SIGNATURES: Final = {
    "BIO_free": "int(*)(BIO *)",
    "BIO_get_mem_data": "long(*)(BIO *, char * *)",
    "BIO_new": "BIO *(*)(BIO_METHOD *)",
    "BIO_read": "int(*)(BIO *, void *, int)",
    "BIO_s_mem": "BIO_METHOD *(*)()",
    "BIO_write": "int(*)(BIO *, void *, int)",
    "ERR_clear_error": "void(*)()",
    "EVP_PKEY_bits": "int(*)(EVP_PKEY *)",
    "EVP_PKEY_free": "void(*)(EVP_PKEY *)",
    "SSL_CTX_set1_curves_list": "long(*)(SSL_CTX *, char *)",
    "SSL_CTX_set1_sigalgs_list": "long(*)(SSL_CTX *, char *)",
    "SSL_CTX_set_alpn_select_cb": (
        "void(*)(SSL_CTX *, int(*)(SSL *, unsigned char * *, unsigned char *,"
        " unsigned char *, unsigned int, void *), void *)"
    ),
    "SSL_CTX_set_keylog_callback": "void(*)(SSL_CTX *, void(*)(SSL *, char *))",
    "SSL_CTX_set_verify": "void(*)(SSL_CTX *, int, int(*)(int, X509_STORE_CTX *))",
    "SSL_do_handshake": "int(*)(SSL *)",
    "SSL_free": "void(*)(SSL *)",
    "SSL_get0_alpn_selected": "void(*)(SSL *, unsigned char * *, unsigned int *)",
    "SSL_get_error": "int(*)(SSL *, int)",
    "SSL_get_peer_certificate": "X509 *(*)(SSL *)",
    "SSL_get_verify_result": "long(*)(SSL *)",
    "SSL_new": "SSL *(*)(SSL_CTX *)",
    "SSL_read": "int(*)(SSL *, void *, int)",
    "SSL_set_accept_state": "void(*)(SSL *)",
    "SSL_set_bio": "void(*)(SSL *, BIO *, BIO *)",
    "SSL_shutdown": "int(*)(SSL *)",
    "SSL_write": "int(*)(SSL *, void *, int)",
    "X509_STORE_CTX_get1_chain": "Cryptography_STACK_OF_X509 *(*)(X509_STORE_CTX *)",
    "X509_STORE_CTX_set_error": "void(*)(X509_STORE_CTX *, int)",
    "sk_X509_free": "void(*)(Cryptography_STACK_OF_X509 *)",
    "sk_X509_num": "int(*)(Cryptography_STACK_OF_X509 *)",
    "sk_X509_value": "X509 *(*)(Cryptography_STACK_OF_X509 *, int)",
    "X509_free": "void(*)(X509 *)",
    "X509_get_pubkey": "EVP_PKEY *(*)(X509 *)",
    "i2d_X509_bio": "int(*)(BIO *, X509 *)",
}
CONSTANTS: Final = {
    "SSL_ERROR_WANT_READ": 2,
    "SSL_ERROR_ZERO_RETURN": 6,
    "SSL_OP_NO_RENEGOTIATION": 1073741824,
    "SSL_OP_NO_TICKET": 16384,
    "SSL_TLSEXT_ERR_ALERT_FATAL": 2,
    "SSL_TLSEXT_ERR_OK": 0,
    "SSL_VERIFY_FAIL_IF_NO_PEER_CERT": 2,
    "SSL_VERIFY_PEER": 1,
    "X509_V_ERR_INVALID_PURPOSE": 26,
    "X509_V_OK": 0,
}


def test_functions_of_openssl_are_those_that_the_code_calls() -> None:
    lib, ffi = Binding().lib, Binding.ffi
    found = {name: ffi.typeof(getattr(lib, name)).cname for name in SIGNATURES}
    assert found == SIGNATURES
    assert {name: getattr(lib, name) for name in CONSTANTS} == CONSTANTS


def test_no_other_functions_of_openssl_are_used() -> None:
    texts = [path.read_text() for path in (SOURCES / "server").rglob("*.py")]
    used = {name for text in texts for name in re.findall(r"\blib\.(\w+)", text)}
    assert used == {*SIGNATURES, *CONSTANTS}


def test_context_of_pyopenssl_gives_its_pointer() -> None:
    pointer = tls.pointer(SSL.Context(SSL.TLS_SERVER_METHOD))
    assert tls.ffi.typeof(pointer).cname == "SSL_CTX *"


def test_servers_and_launcher_import_no_private_names() -> None:
    files = [path for room in ("server", "launcher") for path in (SOURCES / room).rglob("*.py")]
    found = [
        f"{path.relative_to(SOURCES)}: {module}.{name.name}"
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for module in [getattr(node, "module", None) or ""]
        for name in node.names
        if re.search(r"(^|\.)_(?!_)", f"{module}.{name.name}")
    ]
    assert len(files) > len(("server", "launcher"))
    assert not found
