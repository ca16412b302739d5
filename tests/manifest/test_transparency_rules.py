"""``Config.Transparency``: which witnesses may be named, and what may wait for them."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed448
from cryptography.hazmat.primitives.serialization import Encoding
from support.cosigner import Cosigner
from support.samples.manifests import changed, fully_checked

from keyhouse.base.errors import InvalidError
from keyhouse.manifest import Transparency, decode
from keyhouse.manifest.diff import diff

LINES = "".join(
    f"witness {name} {Cosigner.ed25519(name).verifier} https://{name}.example\n" for name in "ABC"
)
MOST = f"{LINES}group Q 2 A B C\nquorum Q\n"
ANY = f"{LINES}group Q any A B C\nquorum Q\n"


def with_transparency(given: object) -> bytes:
    return changed(lambda document: document.update(Config={"Transparency": given}))


def test_without_the_section_nobody_witnesses() -> None:
    for raw in (changed(lambda _: None), with_transparency(None)):
        assert decode(raw).config.transparency is None
    written_out = {"Witnesses": "", "Serve": "", "LeaseSeconds": 0, "LeaseOperations": 0}
    assert decode(with_transparency(written_out)).config.transparency == Transparency()
    assert Transparency().serve == "Always"


def test_everything_that_it_can_say_is_taken_without_a_warning() -> None:
    given = {
        "Witnesses": MOST,
        "Serve": "Witnessed",
        "LeaseSeconds": 2_592_000,
        "LeaseOperations": 1,
        "AnchorBefore": ["LimitedActivations", "Counters", "Counters"],
        "SignedApprovals": True,
        "Origin": "log.example.com/payments",
    }
    raw = with_transparency(given)
    assert [each for each in fully_checked(raw).warnings if "Transparency" in each.at] == []
    assert decode(raw).config.transparency == Transparency(
        MOST,
        "Witnessed",
        2_592_000,
        1,
        ("Counters", "LimitedActivations"),
        signed_approvals=True,
        origin="log.example.com/payments",
    )


def test_a_difference_says_where_it_is() -> None:
    old, new = (decode(with_transparency({"Witnesses": each})) for each in (MOST, ANY))
    [change] = diff(old, new)
    assert (change.section, change.field) == ("Config", ("Transparency", "Witnesses"))


@pytest.mark.parametrize(
    ("given", "place", "problem"),
    [
        ({"Serve": "Witnessed"}, "Serve", "no witness is needed"),
        ({"Serve": "Witnessed", "Witnesses": "quorum none\n"}, "Serve", "no witness is needed"),
        ({"Serve": "Witnessed", "Witnesses": ANY}, "Witnesses", "a fork needs no lying witness"),
        ({"Serve": "witnessed"}, "Serve", "is unknown"),
        ({"Witnesses": LINES}, "Witnesses", "no quorum line"),
        ({"Witnesses": MOST.replace("https", "http")}, "Witnesses", "must be https"),
        ({"LeaseSeconds": 59}, "LeaseSeconds", "must be 60 to"),
        ({"LeaseSeconds": 2_592_001}, "LeaseSeconds", "must be 60 to"),
        ({"LeaseOperations": 1_000_000_001}, "LeaseOperations", "must be 1 to"),
        ({"Origin": "a b"}, "Origin", "has a space"),
        ({"Origin": "a+b"}, "Origin", "has a space, a plus"),
        ({"Origin": "l\u00f6g.example"}, "Origin", "not ASCII"),
        ({"Origin": "a" * 256}, "Origin", "more than 255"),
        ({"AnchorBefore": ["Counters", "counters"]}, "AnchorBefore[1]", "is unknown"),
    ],
)
def test_what_it_cannot_say_is_refused(given: dict[str, Any], place: str, problem: str) -> None:
    with pytest.raises(InvalidError) as caught:
        fully_checked(with_transparency(given))
    [found] = caught.value.problems
    assert found.at == f"Config.Transparency.{place}"
    assert problem in found.problem


@pytest.mark.parametrize(
    ("given", "place", "problem"),
    [
        ({"Witnesses": ANY}, "Witnesses", "a fork needs no lying witness"),
        ({"Witnesses": f"{LINES}quorum none\n"}, "Witnesses", "needs no witness"),
        ({"AnchorBefore": ["Counters"]}, "AnchorBefore", "no effect"),
        ({"Origin": "https://log.example"}, "Origin", "has a scheme"),
    ],
)
def test_what_makes_it_weaker_than_it_looks_is_told(
    given: dict[str, Any], place: str, problem: str
) -> None:
    warnings = fully_checked(with_transparency(given)).warnings
    [found] = [each for each in warnings if each.at.startswith("Config.Transparency")]
    assert found.at == f"Config.Transparency.{place}"
    assert problem in found.problem


def test_a_user_whose_key_signs_no_approvals_is_told_of() -> None:
    key = ed448.Ed448PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "dora")])
    start = datetime(2026, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 7)
    builder = builder.not_valid_before(start).not_valid_after(start + timedelta(days=36500))
    pem = builder.sign(key, None).public_bytes(Encoding.PEM).decode()

    def added(document: dict[str, Any], *, duty: bool) -> None:
        document["Users"]["dora"] = {"Certificate": pem}
        document["Config"] = {"Transparency": {"SignedApprovals": duty}}

    for duty, places in ((True, ["Users.dora.Certificate"]), (False, [])):
        raw = changed(partial(added, duty=duty))
        told = [each.at for each in fully_checked(raw).warnings if "approvals" in each.problem]
        assert told == places
