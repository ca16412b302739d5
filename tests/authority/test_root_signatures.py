"""The closed list of texts that the root key signs."""

from base64 import b64encode

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from support.samples.authority import coordinator_keys

from keyhouse.authority import sign_ephemeral_key, sign_manifest, sign_quote_text
from keyhouse.authority.keys import certificate_of, is_signed_by_root, sign_recovery_index
from keyhouse.base.errors import BadRequestError, BrokenError

STATUSES = (
    "UpToDate",
    "OutOfDate",
    "Revoked",
    "ConfigurationNeeded",
    "OutOfDateConfigurationNeeded",
    "SWHardeningNeeded",
    "ConfigurationAndSWHardeningNeeded",
    "Unknown",
)


def _verify(signature: bytes, message: bytes) -> None:
    key = certificate_of(coordinator_keys().root_cert).public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    key.verify(signature, message, ec.ECDSA(hashes.SHA256()))


def test_manifest_signature_covers_the_exact_bytes_and_is_deterministic() -> None:
    keys = coordinator_keys()
    raw = b' \r\n\t{"Packages":{}}\n'
    signature = sign_manifest(keys, raw)
    _verify(signature, raw)
    assert sign_manifest(keys, raw) == signature
    assert not is_signed_by_root(keys.root_cert, signature, raw.strip())


def test_a_p384_root_signs_manifests_over_sha256_too() -> None:
    keys = coordinator_keys("P-384")
    assert is_signed_by_root(keys.root_cert, sign_manifest(keys, b"{}"), b"{}")


@pytest.mark.parametrize("raw", [b"", b"keyhouse ephemeral v1\0{}", b"AAAAUpToDate", b"0\x82{"])
def test_what_is_no_json_object_is_not_signed_as_a_manifest(raw: bytes) -> None:
    with pytest.raises(BrokenError):
        sign_manifest(coordinator_keys(), raw)


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("length", [4600, 4601])
def test_quote_text_is_base64_and_status(status: str, length: int) -> None:
    quote = bytes(range(256)) * 20
    quote = quote[:length]
    signature = sign_quote_text(coordinator_keys(), quote, status)
    _verify(signature, b64encode(quote) + status.encode())


def test_quote_whose_text_could_be_that_of_another_is_refused() -> None:
    quote, status = b"q" * 4602, "ConfigurationAndSWHardeningNeeded"
    longer = b64encode(quote) + status.encode()
    # The attack: the same text also reads as a longer quote with a better status.
    assert longer.endswith(b"SWHardeningNeeded")
    with pytest.raises(BadRequestError, match="ambiguous") as refusal:
        sign_quote_text(coordinator_keys(), quote, status)
    assert "other form" in refusal.value.hint
    assert list(refusal.value.fields) == ["sgxQuote"]


@pytest.mark.parametrize("length", range(4600, 4606))
def test_no_two_signed_quote_texts_are_equal(length: int) -> None:
    quote = b"\x00" * length
    texts: set[bytes] = set()
    signed = 0
    for status in STATUSES:
        for more in (b"", *(bytes(n) for n in range(1, 40))):
            try:
                sign_quote_text(coordinator_keys(), quote + more, status)
            except BadRequestError:
                continue
            signed += 1
            texts.add(b64encode(quote + more) + status.encode())
    assert len(texts) == signed


def test_unknown_status_is_not_signed() -> None:
    with pytest.raises(BrokenError):
        sign_quote_text(coordinator_keys(), b"q", "Fine")


def test_contexts_keep_the_other_kinds_apart() -> None:
    keys = coordinator_keys()
    _verify(sign_ephemeral_key(keys, b"spki"), b"keyhouse ephemeral v1\0spki")
    _verify(sign_recovery_index(keys, b"spki"), b"keyhouse recovery index v1\0spki")
