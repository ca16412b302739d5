"""Keys of witnesses and their cosignatures, written from C2SP tlog-cosignature."""

from typing import Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey

from keyhouse.transparency.keys import COSIGNED, COSIGNED_MLDSA44, VerifierKey
from keyhouse.transparency.note import Checkpoint, NoteSignature

__all__ = ["TIME", "Cosigner"]

TIME: Final = 1_679_315_147


class Cosigner(NamedTuple):
    """The key of a witness."""

    key: Ed25519PrivateKey | MLDSA44PrivateKey
    verifier: VerifierKey

    @classmethod
    def ed25519(cls, name: str = "witness.example/w1") -> "Cosigner":
        key = Ed25519PrivateKey.generate()
        return cls(key, VerifierKey(name, COSIGNED, key.public_key().public_bytes_raw()))

    @classmethod
    def mldsa44(cls, name: str = "witness.example/w2") -> "Cosigner":
        key = MLDSA44PrivateKey.generate()
        return cls(key, VerifierKey(name, COSIGNED_MLDSA44, key.public_key().public_bytes_raw()))

    def line(self, text: bytes, time: int = TIME) -> NoteSignature:
        """Return the cosignature over the ``text`` of a checkpoint, at ``time`` (s since 1970)."""
        stamp = time.to_bytes(8, "big")
        if self.verifier.kind == COSIGNED:
            message = b"cosignature/v1\ntime %d\n" % time + text
        else:
            found = Checkpoint.read(text)
            name, origin = self.verifier.name.encode(), found.origin.encode()
            message = b"".join(
                (
                    b"subtree/v1\n\0", bytes([len(name)]), name, stamp,
                    bytes([len(origin)]), origin, bytes(8),
                    found.size.to_bytes(8, "big"), found.root,
                )
            )  # fmt: skip
        return NoteSignature(
            self.verifier.name, self.verifier.key_id, stamp + self.key.sign(message)
        )
