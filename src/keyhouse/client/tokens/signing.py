"""Signatures by keys on tokens, made by the ``openssl`` program as their connections are."""

import subprocess
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from keyhouse.client.errors import ClientSetupError
from keyhouse.client.identity import path_of, unnamed_file
from keyhouse.client.tokens.identity import TokenIdentity
from keyhouse.client.tokens.openssl_program import environment, failure, leave_no_core, openssl

_LONGEST: Final = 60.0  # seconds: a token may wait for a touch
_PSS: Final = (
    *("-sigopt", "rsa_padding_mode:pss"),
    *("-sigopt", "rsa_pss_saltlen:32"),
    *("-sigopt", "rsa_mgf1_md:sha256"),
)


def sign_on_token(identity: TokenIdentity, certificate: bytes, message: bytes) -> bytes:
    """Return the signature over ``message`` by the key of ``certificate`` (DER), on its token.

    RSA-PSS with a salt of 32 bytes, or ECDSA in DER, with SHA-256. Raises ``ClientSetupError``.
    """
    is_rsa = isinstance(x509.load_der_x509_certificate(certificate).public_key(), RSAPublicKey)
    with unnamed_file(identity.pin.reveal()) as pin:
        process = subprocess.Popen(  # noqa: S603 the values are options' values, never options
            [
                *(openssl(), "dgst", "-sha256", "-engine", "pkcs11", "-keyform", "engine"),
                *("-sign", identity.uri(path_of(pin)), *(_PSS if is_rsa else ())),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(pin,),
            env=environment(identity),
            start_new_session=True,  # no terminal, and not our Ctrl-C
        )
        leave_no_core(process)
        try:
            signature, talk = process.communicate(message, _LONGEST)
        except BaseException as error:  # also Ctrl-C, which does not reach the program
            process.kill()
            process.communicate()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise ClientSetupError("the token does not answer", hint="is it plugged in?") from None
    if process.returncode or not signature:
        raise failure(talk) or ClientSetupError(
            "the token does not sign", hint="the key must be allowed to sign (CKA_SIGN)"
        )
    return signature
