"""Cosignatures on a checkpoint: adding those that a witness answers (C2SP tlog-witness).

Keys, and what they sign, are in ``keys``: Ed25519 (0x04) and ML-DSA-44 (0x06), both with a time.
"""

from typing import Final

from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.keys import VerifierKey, verified
from keyhouse.transparency.note import SignedNote, read_signatures

ANSWER_BYTES: Final = 16 * 1024
"""Bytes of the longest answer of a witness that is read: four cosignatures of ML-DSA-44."""


def cosigned(note: SignedNote, answer: bytes, witness: VerifierKey) -> SignedNote:
    """Return ``note`` with the cosignature that ``witness`` answered, or a later one that it had.

    Signatures of other keys in the answer are left out. Raises ``LogInvalidError`` unless the
    answer is lines of signatures, with at least one of ``witness``, and all of these hold.
    """
    if len(answer) > ANSWER_BYTES:
        raise LogInvalidError(f"an answer of more than {ANSWER_BYTES} bytes is not read")
    answered = SignedNote(note.text, read_signatures(answer))
    verified(answered, [witness])
    own = [line for line in (*note.signatures, *answered.signatures) if witness.made(line)]
    newest = max(own, key=lambda line: witness.verify(note.text, line.raw))
    others = (line for line in note.signatures if not witness.made(line))
    return SignedNote(note.text, (*others, newest))
