"""Signed notes, checkpoints and cosignatures, beside the C2SP specifications."""

import hashlib
from base64 import b64decode, b64encode

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace
from support.cosigner import TIME, Cosigner

from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.keys import ED25519, VerifierKey, signature_of, verified
from keyhouse.transparency.note import MOST_BYTES, Checkpoint, NoteSignature, SignedNote

EXAMPLE_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
EXAMPLE = (
    "This is an example message.\n\n— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONn"
    "cAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
).encode()
CHECKPOINT = Checkpoint(
    "example.com/behind-the-sofa",
    20852163,
    b64decode("CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I="),
)
TEXT = b"example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"


def ed25519_cosigned(text: bytes, time: int = TIME) -> tuple[VerifierKey, bytes]:
    signer = Cosigner.ed25519()
    return signer.verifier, signer.line(text, time).raw


def mldsa_cosigned(time: int = TIME) -> tuple[VerifierKey, bytes]:
    signer = Cosigner.mldsa44()
    return signer.verifier, signer.line(TEXT, time).raw


def noted(text: bytes, *signed: tuple[VerifierKey, bytes]) -> SignedNote:
    return SignedNote(text, tuple(NoteSignature(key.name, key.key_id, raw) for key, raw in signed))


def test_the_example_of_the_specification_verifies() -> None:
    key = VerifierKey.read(EXAMPLE_KEY)
    note = SignedNote.read(EXAMPLE)
    assert str(key) == EXAMPLE_KEY
    assert note.encode() == EXAMPLE
    assert note.text == b"This is an example message.\n"
    assert verified(note, [key]) == {key: 0}


def test_a_checkpoint_is_written_as_the_specification_has_it() -> None:
    assert CHECKPOINT.encode() == TEXT
    assert Checkpoint.read(TEXT) == CHECKPOINT
    assert Checkpoint.read(TEXT + b"more\n") == CHECKPOINT


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        TEXT[:-1],
        TEXT + b"\n",
        TEXT + b"more",
        b"\n" + TEXT,
        TEXT.replace(b"208", b"+208"),
        TEXT.replace(b"208", b"0208"),
        TEXT.replace(b"20852163", b""),
        TEXT.replace(b"20852163", b"-1"),
        TEXT.replace(b"20852163", b"9223372036854775808"),
        TEXT.replace(b"20852163", "٣".encode()),
        TEXT.replace(b"q2I=", b"q2I"),
        TEXT.replace(b"q2I=", b"q2J="),
        TEXT.replace(b"q2I=", b"q2KK"),
        TEXT.replace(b"example.com", b"\xff"),
        b"a\n1\n",
    ],
)
def test_no_other_text_is_a_checkpoint(text: bytes) -> None:
    with pytest.raises(LogInvalidError):
        Checkpoint.read(text)


def test_each_signature_gives_its_time() -> None:
    log = Ed25519PrivateKey.generate()
    key = VerifierKey(CHECKPOINT.origin, ED25519, log.public_key().public_bytes_raw())
    first, second = ed25519_cosigned(TEXT), mldsa_cosigned()
    note = noted(TEXT, first, second)
    note = replace(note, signatures=(signature_of(log, key, TEXT), *note.signatures))

    read = SignedNote.read(note.encode())

    assert verified(read, [key, first[0], second[0]]) == {key: 0, first[0]: TIME, second[0]: TIME}
    assert verified(read, [second[0]]) == {second[0]: TIME}
    assert VerifierKey.read(str(second[0])) == second[0]


def test_the_latest_of_several_times_counts() -> None:
    key, raw = mldsa_cosigned()
    note = noted(TEXT, (key, raw), (key, raw))
    assert verified(note, [key]) == {key: TIME}


def test_a_cosignature_of_another_text_is_refused() -> None:
    changed = TEXT.replace(b"20852163", b"20852164")
    for key, raw in (ed25519_cosigned(TEXT), mldsa_cosigned()):
        with pytest.raises(LogInvalidError, match=r'"witness.example/w[12]" .*verify'):
            verified(noted(changed, (key, raw)), [key])
        with pytest.raises(LogInvalidError, match=r'"witness.example/w[12]" .*verify'):
            verified(noted(TEXT, (key, (TIME + 1).to_bytes(8, "big") + raw[8:])), [key])
        with pytest.raises(LogInvalidError, match="checkpoint"):
            key.verify(b"no checkpoint\n", raw)


@pytest.mark.parametrize("time", [0, 2**63])
def test_a_cosignature_without_a_time_is_refused(time: int) -> None:
    for key, raw in (ed25519_cosigned(TEXT, time), mldsa_cosigned(time)):
        with pytest.raises(LogInvalidError, match="no time"):
            verified(noted(TEXT, (key, raw)), [key])


def test_one_bad_signature_of_a_known_key_refuses_the_note() -> None:
    good, other = ed25519_cosigned(TEXT), mldsa_cosigned()
    bad = (other[0], other[1][:-1] + bytes([other[1][-1] ^ 1]))
    with pytest.raises(LogInvalidError, match=r'"witness.example/w[12]" .*verify'):
        verified(noted(TEXT, good, bad), [good[0], bad[0]])
    assert verified(noted(TEXT, good, bad), [good[0]]) == {good[0]: TIME}
    with pytest.raises(LogInvalidError, match="no known key"):
        verified(noted(TEXT, good), [bad[0]])
    for short in (b"", b"\0", bad[1][:8], bad[1][:-1]):
        with pytest.raises(LogInvalidError):
            bad[0].verify(TEXT, short)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"text\n",
        b"text\n\n",
        b"\n\n",
        EXAMPLE[:-1],
        EXAMPLE + b"\n",
        EXAMPLE.replace(b"\n\n", b"\n"),
        EXAMPLE.replace("—".encode(), b"-"),
        EXAMPLE.replace("— ".encode(), "—".encode()),
        EXAMPLE.replace(b"foo ", b"foo  "),
        EXAMPLE.replace(b"foo ", b"foo"),
        EXAMPLE.replace(b"foo", b"f+o"),
        EXAMPLE.replace(b"foo", "f\xa0o".encode()),
        EXAMPLE.replace(b"foo", "f\u2028o".encode()),
        EXAMPLE.replace(b"message", b"mess\tage"),
        EXAMPLE.replace(b"message", b"mess\rage"),
        EXAMPLE.replace(b"message", b"mess\xffage"),
        EXAMPLE.replace(b"aQM=", b"aQM"),
        EXAMPLE.replace(b"aQM=", b"aQN="),
        b"text\n\n" + "— a AAAAAA==\n".encode(),
        b"text\n\n" + "— a AAAAAAA=\n".encode() * 65,
        EXAMPLE.replace(b"This", b"x" * MOST_BYTES),
    ],
)
def test_what_is_no_signed_note_is_refused(raw: bytes) -> None:
    with pytest.raises(LogInvalidError):
        SignedNote.read(raw)


def test_the_last_empty_line_ends_the_text() -> None:
    raw = b"a\n\nb\n\n" + "— a AAAAAAA=\n".encode() * 64
    assert SignedNote.read(raw).text == b"a\n\nb\n"
    assert len(SignedNote.read(raw).signatures) == 64


@pytest.mark.parametrize(
    "text",
    [
        "",
        "example.com/foo",
        "example.com/foo+530d903a",
        EXAMPLE_KEY + "+",
        EXAMPLE_KEY + "\n",
        " " + EXAMPLE_KEY,
        EXAMPLE_KEY.replace("530d903a", "530d903b"),
        EXAMPLE_KEY.replace("530d903a", "530D903A"),
        EXAMPLE_KEY.replace("foo", "fo o"),
        EXAMPLE_KEY.replace("Aeky", "Aukx"),
        EXAMPLE_KEY[:-4],
        EXAMPLE_KEY.replace("foo", "bar"),
        "+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
    ],
)
def test_what_is_no_verifier_key_is_refused(text: str) -> None:
    with pytest.raises(LogInvalidError):
        VerifierKey.read(text)


def test_a_type_that_is_not_known_is_no_verifier_key() -> None:
    raw = b"\x02" + bytes(32)
    key_id = hashlib.sha256(b"a\n" + raw).hexdigest()[:8]
    with pytest.raises(LogInvalidError, match="known type"):
        VerifierKey.read(f"a+{key_id}+{b64encode(raw).decode()}")
