"""Write PEM (RFC 7468)."""

from base64 import b64encode

from keyhouse.base.secret import Secret


def pem_block(label: str, der: bytes) -> str:
    """Return ``der`` as one PEM block of the type ``label``, with 64 characters per line."""
    text = b64encode(der).decode("ascii")
    lines = "".join(f"{text[i : i + 64]}\n" for i in range(0, len(text), 64))
    return f"-----BEGIN {label}-----\n{lines}-----END {label}-----\n"


def certificate_pem(*certificates: bytes) -> str:
    """Return DER certificates as PEM blocks, in the given order."""
    return "".join(pem_block("CERTIFICATE", der) for der in certificates)


def private_key_pem(pkcs8: Secret) -> str:
    """Return a private key (PKCS #8 DER) as a PEM block. The text is as secret as the key."""
    return pem_block("PRIVATE KEY", pkcs8.reveal())
