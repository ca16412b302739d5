"""Write SHA256SUMS, and sign the sums: a C2SP signed note with Ed25519."""

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from keyhouse.cli.release.sums import NOTE, SUMS, UNLISTED, digest, signed_text
from keyhouse.transparency.keys import ED25519, VerifierKey, signature_of
from keyhouse.transparency.note import SignedNote, require_key_name


def write_sums(folder: Path) -> bytes:
    """Write ``SHA256SUMS`` of the files in ``folder``; return the content."""
    lines = [
        f"{digest(path)}  {path.name}\n"
        for path in sorted(folder.iterdir())
        if path.name not in UNLISTED
    ]
    sums = "".join(lines).encode()
    (folder / SUMS).write_bytes(sums)
    return sums


def read_key(file: Path) -> Ed25519PrivateKey:
    """Return the Ed25519 key in ``file`` (PEM, PKCS #8). Raises ``ValueError`` for a wrong key."""
    key = load_pem_private_key(file.read_bytes(), None)
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(  # noqa: TRY004 the content of a file
            f"{file} is not an Ed25519 key; make a key: openssl genpkey -algorithm ed25519"
        )
    return key


def verifier_of(key: Ed25519PrivateKey, name: str) -> VerifierKey:
    """Return the public half of ``key`` under ``name``, for users. Raises ``LogInvalidError``."""
    require_key_name(name)
    return VerifierKey(name, ED25519, key.public_key().public_bytes_raw())


def sign_sums(folder: Path, version: str, key: Ed25519PrivateKey, name: str) -> VerifierKey:
    """Sign ``SHA256SUMS``, write ``SHA256SUMS.note``, and return the verifier key."""
    verifier = verifier_of(key, name)
    text = signed_text(version, (folder / SUMS).read_bytes())
    note = SignedNote(text, (signature_of(key, verifier, text),))
    (folder / NOTE).write_bytes(note.encode())
    return verifier
