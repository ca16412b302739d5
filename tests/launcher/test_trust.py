"""Who may be the coordinator, and which answer may be its own: every way in which it is not."""

import ssl
import uuid
from collections.abc import Callable
from typing import Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_der_private_key
from support.peers.mesh import coordinator_keys, leaf_for, pem, predefined
from support.samples.odd_certificates import odd_certificates

from keyhouse.authority import renew_intermediate
from keyhouse.base.secret import Secret
from keyhouse.launcher import Anchor, CoordinatorNotTrustedError, read_anchor
from keyhouse.launcher.trust import require_answer, require_issued, require_served

OURS, THEIRS = coordinator_keys(0), coordinator_keys(1)
WHO: Final = uuid.UUID("6ba7b810-9dad-41d1-80b4-00c04fd430c8")
KIND: Final = "web"
FULL: Final = Anchor(OURS.root_cert, OURS.intermediate_cert)
ROOT_ALONE: Final = Anchor(OURS.root_cert)
RENEWED: Final = renew_intermediate(
    OURS, x509.load_der_x509_certificate(OURS.root_cert).not_valid_before_utc
)

Env = dict[str, bytes]


def _leaf(name: str = str(WHO), kind: str = KIND) -> bytes:
    [certificate] = x509.load_pem_x509_certificates(leaf_for(OURS, name, kind)[0])
    return certificate.public_bytes(Encoding.DER)


def _answer(env: Env, anchor: Anchor | None, served: bytes = OURS.marble_root_cert) -> None:
    require_answer(
        {name: Secret(value) for name, value in env.items()},
        served=served,
        anchor=anchor,
        who=WHO,
        kind=KIND,
    )


@pytest.mark.parametrize("anchor", [FULL, ROOT_ALONE, None], ids=["full", "root", "none"])
def test_the_coordinator_itself_is_taken(anchor: Anchor | None) -> None:
    require_served(OURS.marble_root_cert, anchor)
    _answer(predefined(OURS, str(WHO), KIND), anchor)


@pytest.mark.parametrize(
    "served",
    [
        THEIRS.marble_root_cert,
        OURS.root_cert,  # what the Client API serves
        RENEWED.marble_root_cert,  # of the same root and name, with another key
        OURS.intermediate_cert,  # the right key, and no certificate that signs itself
        _leaf(),  # a workload's, below the same root
        b"no certificate",
    ],
    ids=["another", "root", "renewed", "intermediate", "leaf", "garbage"],
)
def test_no_other_certificate_is_treated_as_the_marble_root(served: bytes) -> None:
    with pytest.raises(CoordinatorNotTrustedError):
        require_served(served, FULL)


@pytest.mark.parametrize("served", [OURS.intermediate_cert, _leaf(), b""])
def test_what_signs_itself_not_is_no_marble_root_for_anybody(served: bytes) -> None:
    for anchor in (ROOT_ALONE, None):
        with pytest.raises(CoordinatorNotTrustedError):
            require_served(served, anchor)


def _set(name: str, value: bytes) -> Callable[[Env], None]:
    return lambda env: env.update({f"MARBLE_PREDEFINED_{name}": value})


def _drop(name: str) -> Callable[[Env], None]:
    return lambda env: env.update({f"MARBLE_PREDEFINED_{name}": b""})


_LEAF_OF_OTHER_TYPE = leaf_for(OURS, str(WHO), "db")
_LEAF_OF_OTHER_UUID = leaf_for(OURS, str(uuid.UUID(int=7)), KIND)
_LEAF_THAT_IS_CA = leaf_for(OURS, str(WHO), KIND, is_ca=True)
_LEAF_OF_OTHERS = leaf_for(THEIRS, str(WHO), KIND)
_INTERMEDIATE = pem(OURS.intermediate_cert)


def _identity(leaf: tuple[bytes, bytes]) -> Callable[[Env], None]:
    def bend(env: Env) -> None:
        env["MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN"] = leaf[0] + _INTERMEDIATE
        env["MARBLE_PREDEFINED_PRIVATE_KEY"] = leaf[1]

    return bend


_BENT: Final = {
    "another coordinator root": _set("COORDINATOR_ROOT_CA", pem(THEIRS.root_cert)),
    "no coordinator root": _drop("COORDINATOR_ROOT_CA"),
    "two roots": _set("COORDINATOR_ROOT_CA", 2 * pem(OURS.root_cert)),
    "another marble root": _set("ROOT_CA", pem(THEIRS.marble_root_cert)),
    "a renewed marble root": _set("ROOT_CA", pem(RENEWED.marble_root_cert)),
    "no marble root": _drop("ROOT_CA"),
    "a leaf of others": _identity(_LEAF_OF_OTHERS),
    "another UUID": _identity(_LEAF_OF_OTHER_UUID),
    "another type": _identity(_LEAF_OF_OTHER_TYPE),
    "a CA as leaf": _identity(_LEAF_THAT_IS_CA),
    "the key of another leaf": _set("PRIVATE_KEY", _LEAF_OF_OTHER_TYPE[1]),
    "no key": _drop("PRIVATE_KEY"),
    "no chain": _drop("MARBLE_CERTIFICATE_CHAIN"),
    "a leaf alone": _set("MARBLE_CERTIFICATE_CHAIN", leaf_for(OURS, str(WHO), KIND)[0]),
    "root in the chain": lambda env: env.update(
        MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN=leaf_for(OURS, str(WHO), KIND)[0]
        + pem(OURS.root_cert)
    ),
    "twin in the chain": lambda env: env.update(
        MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN=leaf_for(OURS, str(WHO), KIND)[0]
        + pem(OURS.marble_root_cert)
    ),
}


@pytest.mark.parametrize("bend", _BENT.values(), ids=_BENT.keys())
@pytest.mark.parametrize("anchor", [FULL, ROOT_ALONE, None], ids=["full", "root", "none"])
def test_answer_that_does_not_fit_is_refused(
    bend: Callable[[Env], None], anchor: Anchor | None
) -> None:
    env = predefined(OURS, str(WHO), KIND)
    bend(env)

    with pytest.raises(CoordinatorNotTrustedError):
        _answer(env, anchor)


def test_whole_answer_of_another_coordinator_is_refused_by_the_root_alone() -> None:
    """It served its own marble root, which nothing can be said of, and it is consistent."""
    env = predefined(THEIRS, str(WHO), KIND)
    require_served(THEIRS.marble_root_cert, ROOT_ALONE)

    with pytest.raises(CoordinatorNotTrustedError, match="trusted root"):
        _answer(env, ROOT_ALONE, THEIRS.marble_root_cert)


def test_certificates_of_the_right_coordinator_do_not_help_another_one() -> None:
    """All public certificates can be copied; the key of the handshake cannot."""
    env = predefined(OURS, str(WHO), KIND)

    with pytest.raises(CoordinatorNotTrustedError, match="not the TLS certificate"):
        _answer(env, ROOT_ALONE, THEIRS.marble_root_cert)


def test_private_key_is_not_in_what_is_said() -> None:
    env = predefined(OURS, str(WHO), KIND)
    env["MARBLE_PREDEFINED_PRIVATE_KEY"] = secret = _LEAF_OF_OTHER_TYPE[1]

    with pytest.raises(CoordinatorNotTrustedError) as refused:
        _answer(env, FULL)

    assert secret.decode().splitlines()[1] not in f"{refused.value!r} {refused.value}"


def test_anchor_is_the_root_or_the_intermediate_and_the_root() -> None:
    root, intermediate = pem(OURS.root_cert), pem(OURS.intermediate_cert)

    assert read_anchor(root, "root.pem") == ROOT_ALONE
    assert read_anchor(intermediate + root, "root.pem") == FULL


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no PEM",
        pem(OURS.intermediate_cert),
        pem(OURS.root_cert) + pem(OURS.intermediate_cert),
        pem(OURS.root_cert) * 2,
        pem(OURS.marble_root_cert) + pem(OURS.root_cert),
        pem(THEIRS.intermediate_cert) + pem(OURS.root_cert),
        pem(OURS.intermediate_cert) + pem(OURS.intermediate_cert) + pem(OURS.root_cert),
        leaf_for(OURS, str(WHO), KIND)[0],
    ],
    ids=["empty", "text", "intermediate", "order", "twice", "twin", "others", "three", "leaf"],
)
def test_file_that_is_no_anchor_is_named(content: bytes) -> None:
    with pytest.raises(CoordinatorNotTrustedError):
        read_anchor(content, "root.pem")


def _odd(certificate: bytes, signer: Secret) -> dict[str, bytes]:
    key = load_der_private_key(signer.reveal(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return dict(odd_certificates(x509.load_der_x509_certificate(certificate), key))


def test_certificate_that_no_library_takes_is_refused_as_any_other() -> None:
    """Whoever answers has made them, and is not trusted yet."""
    for served in _odd(OURS.marble_root_cert, OURS.intermediate_key).values():
        with pytest.raises(CoordinatorNotTrustedError):
            require_served(served, FULL)
    for intermediate in _odd(OURS.intermediate_cert, OURS.root_key).values():
        with pytest.raises(CoordinatorNotTrustedError):
            require_issued(intermediate, OURS.root_cert)
        anchor = ssl.DER_cert_to_PEM_cert(intermediate).encode() + pem(OURS.root_cert)
        with pytest.raises(CoordinatorNotTrustedError):
            read_anchor(anchor, "root.pem")
    for leaf in _odd(_leaf(), OURS.intermediate_key).values():
        env = predefined(OURS, str(WHO), KIND)
        chain = ssl.DER_cert_to_PEM_cert(leaf).encode() + _INTERMEDIATE
        env["MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN"] = chain
        with pytest.raises(CoordinatorNotTrustedError):
            _answer(env, None)


def test_root_does_not_vouch_for_itself_as_intermediate() -> None:
    with pytest.raises(CoordinatorNotTrustedError):
        require_issued(OURS.root_cert, OURS.root_cert)


def test_nobody_is_marble_root_by_copying_the_true_root_and_intermediate() -> None:
    """They are public. The marble root that is served has to have the intermediate's key."""
    env = predefined(THEIRS, str(WHO), KIND)
    leaf, key = leaf_for(THEIRS, str(WHO), KIND)
    env["MARBLE_PREDEFINED_COORDINATOR_ROOT_CA"] = pem(OURS.root_cert)
    env["MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN"] = leaf + _INTERMEDIATE
    env["MARBLE_PREDEFINED_PRIVATE_KEY"] = key
    require_served(THEIRS.marble_root_cert, ROOT_ALONE)

    with pytest.raises(CoordinatorNotTrustedError, match="key and subject"):
        _answer(env, ROOT_ALONE, THEIRS.marble_root_cert)


def test_answer_with_another_intermediate_than_the_pinned_one_is_refused() -> None:
    env = predefined(OURS, str(WHO), KIND)

    with pytest.raises(CoordinatorNotTrustedError, match="trusted intermediate"):
        _answer(env, Anchor(OURS.root_cert, RENEWED.intermediate_cert))


def test_a_twin_has_the_subject_of_the_intermediate_as_well_as_its_key() -> None:
    signer = load_der_private_key(OURS.intermediate_key.reveal(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    true = x509.load_der_x509_certificate(OURS.marble_root_cert)
    other = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "another purpose")])
    same_key = (
        x509.CertificateBuilder()
        .subject_name(other)
        .issuer_name(other)
        .public_key(true.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(true.not_valid_before_utc)
        .not_valid_after(true.not_valid_after_utc)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(signer, SHA256())
    )
    with pytest.raises(CoordinatorNotTrustedError, match="key and subject"):
        require_served(same_key.public_bytes(Encoding.DER), FULL)
