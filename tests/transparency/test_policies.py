"""Policies of witnesses: what is read, whose cosignatures are enough, and what a policy bears."""

from collections.abc import Iterable
from contextlib import suppress
from itertools import chain, combinations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, strategies as st
from msgspec.structs import replace
from support.cosigner import TIME, Cosigner

from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.keys import COSIGNED, ED25519, VerifierKey, signature_of
from keyhouse.transparency.note import Checkpoint, SignedNote
from keyhouse.transparency.policy import MOST_WITNESSES, CosignaturePolicy, Witness, WitnessGroup

LOG_KEY = Ed25519PrivateKey.generate()
LOG = VerifierKey("log.example/a", ED25519, LOG_KEY.public_key().public_bytes_raw())
TEXT = Checkpoint(LOG.name, 7, bytes(32)).encode()
SIGNERS = [Cosigner.ed25519(f"w{number}.example") for number in range(7)]
LINES = "".join(
    f"witness W{number} {each.verifier} https://w{number}.example/log\n"
    for number, each in enumerate(SIGNERS)
)


def of(needed: int, total: int) -> str:
    members = " ".join(f"W{number}" for number in range(total))
    return f"{LINES}group Q {needed} {members}\nquorum Q\n"


def signed(count: int) -> SignedNote:
    lines = [signature_of(LOG_KEY, LOG, TEXT), *(each.line(TEXT) for each in SIGNERS[:count])]
    return SignedNote(TEXT, tuple(lines))


def test_a_policy_is_read_with_its_groups() -> None:
    text = f"""# a comment
log {LOG} https://log.example/
\t witness  W0 {SIGNERS[0].verifier}\t https://w0.example/log\r
witness W1 {SIGNERS[1].verifier}

witness W2 {SIGNERS[2].verifier}
group inner any W0 W1
group outer all inner W2
quorum outer
"""
    found = CosignaturePolicy.read(text)

    witnesses = (
        Witness("W0", SIGNERS[0].verifier, "https://w0.example/log"),
        Witness("W1", SIGNERS[1].verifier),
        Witness("W2", SIGNERS[2].verifier),
    )
    inner = WitnessGroup("inner", 1, witnesses[:2])
    assert found == CosignaturePolicy(
        (LOG,), witnesses, WitnessGroup("outer", 2, (inner, witnesses[2]))
    )


@pytest.mark.parametrize(
    ("needed", "total", "liars", "outages"),
    [(1, 1, 0, 0), (1, 3, -1, 2), (2, 3, 0, 1), (3, 4, 1, 1), (4, 5, 2, 1), (5, 7, 2, 2)],
)
def test_what_a_policy_bears(needed: int, total: int, liars: int, outages: int) -> None:
    found = CosignaturePolicy.read(of(needed, total))
    assert (found.tolerated_liars, found.tolerated_outages) == (liars, outages)


def test_without_a_quorum_everything_holds_and_nothing_is_borne() -> None:
    found = CosignaturePolicy.read("quorum none\n")
    assert found.holds(())
    assert found.tolerated_liars == -1
    assert found.require(signed(0), LOG) == {}


def subsets(keys: Iterable[VerifierKey]) -> Iterable[tuple[VerifierKey, ...]]:
    every = tuple(keys)
    return chain.from_iterable(combinations(every, size) for size in range(len(every) + 1))


@st.composite
def policies(draw: st.DrawFn) -> str:
    """Return the text of a policy whose groups are drawn over up to seven witnesses."""
    free = [f"W{number}" for number in range(draw(st.integers(1, 7)))]
    text = LINES
    for number in range(draw(st.integers(0, 4))):
        size = draw(st.integers(1, len(free)))
        members, free = free[:size], free[size:]
        needed = draw(st.integers(1, size))
        text += f"group G{number} {needed} {' '.join(members)}\n"
        free.append(f"G{number}")
    return f"{text}quorum {free[-1]}\n"


@given(policies())
def test_what_a_policy_bears_is_what_trying_all_sets_says(text: str) -> None:
    policy = CosignaturePolicy.read(text)
    keys = {each.key for each in policy.witnesses}
    quorums = [set(each) for each in subsets(keys) if policy.holds(each)]
    smallest = [each for each in quorums if not any(other < each for other in quorums)]

    liars = min(len(one & other) for one in smallest for other in smallest)
    outages = min(len(gone) for gone in subsets(keys) if not policy.holds(keys - set(gone)))

    assert (policy.tolerated_liars, policy.tolerated_outages) == (liars - 1, outages - 1)


def test_a_quorum_of_cosignatures_is_required() -> None:
    policy = CosignaturePolicy.read(of(2, 3))
    with pytest.raises(LogInvalidError, match="no quorum"):
        policy.require(signed(1), LOG)
    assert policy.require(signed(2), LOG) == {each.verifier: TIME for each in SIGNERS[:2]}
    other = VerifierKey("other.example/a", ED25519, LOG.public)
    with pytest.raises(LogInvalidError, match="not signed"):
        policy.require(signed(3), other)
    replayed = replace(signed(3), text=Checkpoint(LOG.name, 8, bytes(32)).encode())
    with pytest.raises(LogInvalidError, match=r'"log.example/a" .*verify'):
        policy.require(replayed, LOG)


REFUSED = [
    "",
    "quorum\n",
    "quorum Q\n",
    "quorum none\nquorum none\n",
    "quorum none none\n",
    "quorum NONE\n",
    LINES,
    f"{LINES}quorum W7\n",
    f"{LINES}quorum W\n",
    f"quorum W0\n{LINES}",
    f"{LINES}{LINES}quorum none\n",
    f"{LINES}group Q 1\nquorum Q\n",
    f"{LINES}group Q 0 W0\nquorum Q\n",
    f"{LINES}group Q 3 W0 W1\nquorum Q\n",
    f"{LINES}group Q 01 W0 W1\nquorum Q\n",
    f"{LINES}group Q -1 W0 W1\nquorum Q\n",
    f"{LINES}group Q \N{ARABIC-INDIC DIGIT ONE} W0 W1\nquorum Q\n",
    f"{LINES}group Q most W0 W1\nquorum Q\n",
    f"{LINES}group Q 1 W0 W0\nquorum Q\n",
    f"{LINES}group Q 1 Q\nquorum Q\n",
    f"{LINES}group Q 1 W0 none\nquorum Q\n",
    f"{LINES}group none 1 W0\nquorum none\n",
    f"{LINES}group W1 1 W0\nquorum none\n",
    f"{LINES}group A 1 W0\ngroup B 1 W0\nquorum A\n",
    f"{LINES}group A 1 W0\ngroup B 1 A A\nquorum B\n",
    f"witness none {SIGNERS[0].verifier}\nquorum none\n",
    f"witness W0 {LOG}\nquorum W0\n",
    f"witness W0 {SIGNERS[0].verifier} https://a b\nquorum W0\n",
    f"log {SIGNERS[0].verifier}\nquorum none\n",
    f"log {LOG}\nlog {LOG}\nquorum none\n",
    f"witness A {SIGNERS[0].verifier}\nwitness B {SIGNERS[0].verifier}\nquorum none\n",
    "quorum none\nanything\n",
    "quorum none\n\N{NO-BREAK SPACE}\n",
    "quorum none\n# \x1b[1m\n",
    f"# {'x' * 70000}\nquorum none\n",
]


@pytest.mark.parametrize("text", REFUSED, ids=map(str, range(len(REFUSED))))  # keys differ
def test_what_is_no_policy_is_refused(text: str) -> None:
    with pytest.raises(LogInvalidError):
        CosignaturePolicy.read(text)


def test_a_key_has_one_name_and_the_number_of_witnesses_is_limited() -> None:
    renamed = replace(SIGNERS[0].verifier, name="other.example")
    with pytest.raises(LogInvalidError, match=r"line 2 .*same key"):
        CosignaturePolicy.read(
            f"witness A {SIGNERS[0].verifier}\nwitness B {renamed}\nquorum none\n"
        )
    many = [
        f"witness A{number} {VerifierKey('a', COSIGNED, number.to_bytes(32, 'big'))}\n"
        for number in range(MOST_WITNESSES + 1)
    ]
    assert (
        CosignaturePolicy.read("".join(many[1:]) + "quorum none\n").tolerated_outages
        == MOST_WITNESSES
    )
    with pytest.raises(LogInvalidError, match=f"line 33 .*{MOST_WITNESSES} witnesses"):
        CosignaturePolicy.read("".join(many) + "quorum none\n")


def test_where_a_checkpoint_may_be_sent() -> None:
    key = SIGNERS[0].verifier
    for url in (
        "https://w.example",
        "https://w.example:8443/a/b",
        "http://127.0.0.1:1",
        "http://[::1]/a",
    ):
        Witness("W", key, url).require_url()
    for url in (
        "",
        "w.example",
        "https://",
        "https:///a",
        "http://w.example/a",
        "http://localhost/a",
        "http://192.0.2.1/a",
        "ftp://127.0.0.1/a",
        "https://user@w.example/a",
        "https://w.example/a?b",
        "https://w.example/a#b",
        "https://w.example:0/",
        "https://w.example:x/",
        "https://[w.example/",
    ):
        with pytest.raises(LogInvalidError, match="URL"):
            Witness("W", key, url).require_url()


# As Python reads words that are not UTF-8: they have lone surrogates.
_ANY_TEXT = st.text("\ud800\udcffa+\n =", max_size=8) | st.text(st.characters())


@given(_ANY_TEXT)
def test_any_text_is_a_key_or_refused(text: str) -> None:
    for each in (text, f"{text}+{'0' * 8}+AQ==", str(LOG).replace("log", text)):
        with suppress(LogInvalidError):
            VerifierKey.read(each)


@given(_ANY_TEXT)
def test_any_text_is_a_policy_or_refused(text: str) -> None:
    for line in (text, f"log {text}", f"witness A {text}", LINES.replace("example", text, 1)):
        with suppress(LogInvalidError):
            CosignaturePolicy.read(line)
