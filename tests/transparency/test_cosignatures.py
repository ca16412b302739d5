"""Adding what witnesses answer to a checkpoint."""

import pytest
from msgspec.structs import replace
from support.cosigner import TIME, Cosigner

from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.keys import ANSWER_BYTES, cosigned, verified
from keyhouse.transparency.note import Checkpoint, NoteSignature, SignedNote

TEXT = Checkpoint("log.example/a", 7, bytes(32)).encode()
LOG = NoteSignature("log.example/a", b"abcd", b"a signature of the log")
NOTE = SignedNote(TEXT, (LOG,))


@pytest.mark.parametrize("second", [Cosigner.ed25519("b"), Cosigner.mldsa44("b")])
def test_a_cosignature_is_added_behind_the_others(second: Cosigner) -> None:
    first = Cosigner.ed25519()
    note = cosigned(NOTE, first.line(TEXT).encode(), first.verifier)

    note = cosigned(note, second.line(TEXT, TIME + 1).encode(), second.verifier)

    assert note.signatures[0] == LOG
    both = [first.verifier, second.verifier]
    assert verified(SignedNote.read(note.encode()), both) == dict(
        zip(both, (TIME, TIME + 1), strict=True)
    )


def test_the_newest_cosignature_of_a_witness_is_kept() -> None:
    witness = Cosigner.ed25519()
    note = cosigned(NOTE, witness.line(TEXT, TIME + 2).encode(), witness.verifier)
    for time, kept in ((TIME + 1, TIME + 2), (TIME + 3, TIME + 3)):
        found = cosigned(note, witness.line(TEXT, time).encode(), witness.verifier)
        assert len(found.signatures) == 2
        assert verified(found, [witness.verifier]) == {witness.verifier: kept}


def test_signatures_of_others_in_an_answer_are_left_out() -> None:
    witness, other = Cosigner.ed25519(), Cosigner.mldsa44()
    answer = other.line(TEXT).encode() + witness.line(TEXT).encode()
    found = cosigned(NOTE, answer, witness.verifier)
    assert found.signatures == (LOG, witness.line(TEXT))


def test_an_answer_that_does_not_hold_is_refused() -> None:
    witness = Cosigner.ed25519()
    good = witness.line(TEXT).encode()
    replayed = witness.line(Checkpoint("log.example/a", 6, bytes(32)).encode()).encode()
    bad = replace(witness.line(TEXT), raw=bytes(72)).encode()
    long = good + b"x" * ANSWER_BYTES
    for answer in (b"", b"\n", good[:-1], good + b"\n", replayed, bad, good + bad, long, b"\xff\n"):
        with pytest.raises(LogInvalidError):
            cosigned(NOTE, answer, witness.verifier)
    with pytest.raises(LogInvalidError, match="no known key"):
        cosigned(NOTE, good, Cosigner.ed25519("other.example/w").verifier)
