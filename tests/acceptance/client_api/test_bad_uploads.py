"""Uploads that can be read but do not fit the manifest: exact answers, all or nothing."""

from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from support.peers.answers import as_writer, b64, checked, observe, with_web_certificate
from support.peers.https import make_pair
from support.process.server import Client, Server
from support.samples.deployment import user

pytestmark = pytest.mark.acceptance

SECRETS = "/api/v2/secrets"
WEB = user("web")
KEY = load_pem_private_key(WEB.key_pem, password=None)
PKCS8 = KEY.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
LOCKED = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"phrase"))
PUBLIC = KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
P384 = make_pair("P-384", key=ec.generate_private_key(ec.SECP384R1()))

ONE_CERTIFICATE = "send exactly one certificate in DER or PEM"
PKCS8_HINT = "send PKCS #8 in DER or PEM, without a pass phrase"
KEY_ALONE = "send the value in the field key"
KEY_SIZE = "send 16 bytes, as the manifest requires"
AS_CERT = "send the certificate in the field cert"
OWN_KEY = "send the private key of the certificate"
PUBLIC_HINT = "send a SubjectPublicKeyInfo in DER or PEM, or leave the field out"

Fields = dict[str, bytes]
Found = tuple[str, str, str]

MISFITS: dict[str, tuple[dict[str, Fields], tuple[Found, ...]]] = {
    "a key too short": (
        {"key0": {"key": bytes(15)}},
        (("secrets.key0.key", "has 15 bytes", KEY_SIZE),),
    ),
    "a key too long": (
        {"key0": {"key": bytes(100_000)}},
        (("secrets.key0.key", "has 100000 bytes", KEY_SIZE),),
    ),
    "an empty key": (
        {"key0": {"key": b""}},
        (("secrets.key0.key", "has 0 bytes", KEY_SIZE),),
    ),
    "a certificate for a key": (
        {"key0": {"cert": WEB.der, "private": PKCS8}},
        (("secrets.key0.key", "is missing", KEY_ALONE),),
    ),
    "a certificate for plain data": (
        {"note": {"cert": WEB.der}},
        (("secrets.note.key", "is missing", KEY_ALONE),),
    ),
    "nothing": ({"note": {}}, (("secrets.note.key", "is missing", KEY_ALONE),)),
    "a key for a certificate": (
        {"web": {"key": bytes(32)}},
        (
            (
                "secrets.web.key",
                "cannot be the value of a certificate",
                AS_CERT,
            ),
        ),
    ),
    "a private key without certificate": (
        {"web": {"private": PKCS8}},
        (("secrets.web.cert", "is missing", AS_CERT),),
    ),
    "an empty certificate": (
        {"web": {"cert": b""}},
        (("secrets.web.cert", "is not a certificate", ONE_CERTIFICATE),),
    ),
    "garbage for a certificate": (
        {"web": {"cert": b"\x30\x82\xff\xff" * 1000, "private": PKCS8}},
        (("secrets.web.cert", "is not a certificate", ONE_CERTIFICATE),),
    ),
    "a certificate with a byte more": (
        {"web": {"cert": WEB.der + b"\0"}},
        (("secrets.web.cert", "is not a certificate", ONE_CERTIFICATE),),
    ),
    "half a certificate": (
        {"web": {"cert": WEB.der[:100]}},
        (("secrets.web.cert", "is not a certificate", ONE_CERTIFICATE),),
    ),
    "two certificates": (
        {"web": {"cert": WEB.pem + WEB.pem}},
        (("secrets.web.cert", "is not a certificate", ONE_CERTIFICATE),),
    ),
    "a key where the certificate belongs": (
        {"web": {"cert": WEB.key_pem}},
        (("secrets.web.cert", "is not a certificate", ONE_CERTIFICATE),),
    ),
    "another curve": (
        {"web": {"cert": P384.certificate}},
        (
            (
                "secrets.web.cert",
                "holds a key of another size",
                "send a certificate for a key of 256 bits, as the manifest requires",
            ),
        ),
    ),
    "another's private key": (
        {"web": {"cert": WEB.der, "private": user("another").key_pem}},
        (("secrets.web.private", "does not belong to the certificate", OWN_KEY),),
    ),
    "garbage for a private key": (
        {"web": {"cert": WEB.der, "private": PKCS8[:-1]}},
        (("secrets.web.private", "is not a private key", PKCS8_HINT),),
    ),
    "a private key under a pass phrase": (
        {"web": {"cert": WEB.der, "private": LOCKED}},
        (("secrets.web.private", "is not a private key", PKCS8_HINT),),
    ),
    "the private key as public key": (
        {"web": {"cert": WEB.der, "public": PKCS8}},
        (("secrets.web.public", "is not a public key", PUBLIC_HINT),),
    ),
    "several at once": (
        {"note": {"key": b"fine"}, "key1": {"key": b"x"}, "key0": {"key": b""}, "web": {}},
        (
            ("secrets.key0.key", "has 0 bytes", KEY_SIZE),
            ("secrets.key1.key", "has 1 bytes", KEY_SIZE),
            ("secrets.web.cert", "is missing", AS_CERT),
        ),
    ),
}


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A coordinator that wants a certificate too, with a value for ``note``."""
    with Server(tmp_path_factory.mktemp("uploads") / "data") as server:
        with server.client() as client:
            assert client.set_manifest(with_web_certificate()).status == 200
        with as_writer(server) as client:
            assert client.upload({"note": b"known"}).status == 200
        yield server


@pytest.fixture
def writing(serving: Server) -> Iterator[Client]:
    """A connection of the writer; at the end nothing has changed."""
    with as_writer(serving) as client:
        before = observe(client)
        yield client
        assert observe(client) == before
        assert client.secrets(["note", "web"]) == {"note": b"known", "web": None}


def _encoded(uploads: dict[str, Fields]) -> dict[str, Any]:
    return {
        "secrets": {
            name: {field: b64(value) for field, value in fields.items()}
            for name, fields in uploads.items()
        }
    }


@pytest.mark.parametrize("name", MISFITS)
def test_a_value_that_does_not_fit_is_refused_with_every_problem(
    writing: Client, name: str
) -> None:
    uploads, found = MISFITS[name]
    reply = checked(writing.post(SECRETS, _encoded(uploads)))
    assert reply.status == 400
    text = "; ".join(f"{place}: {problem} ({hint})" for place, problem, hint in found)
    assert reply.envelope == {
        "status": "error",
        "data": {
            "problems": [
                {"at": place, "problem": problem, "hint": hint} for place, problem, hint in found
            ]
        },
        "message": f"the upload: {text}",
    }


@pytest.mark.parametrize(
    "fields",
    [
        {"key": b"x", "cert": b"x"},
        {"key": b"", "private": b""},
        {"key": b"x", "public": PUBLIC},
        {"key": b"x", "cert": WEB.der, "private": PKCS8, "public": PUBLIC},
    ],
)
@pytest.mark.parametrize("name", ["note", "key0", "web"])
def test_a_key_mixed_with_a_certificate_breaks_a_rule_of_the_request(
    writing: Client, name: str, fields: Fields
) -> None:
    reply = checked(writing.post(SECRETS, _encoded({"note": {"key": b"fine"}, name: fields})))
    assert (reply.status, reply.envelope) == (
        400,
        {
            "status": "fail",
            "data": {f"secrets.{name}.key": "is given together with cert, private or public"},
            "message": f'secret "{name}" mixes a key with a certificate'
            " (send either key alone, or cert with private and public)",
        },
    )


def test_a_value_that_a_template_cannot_take_is_refused(writing: Client) -> None:
    reply = checked(writing.post(SECRETS, _encoded({"note": {"key": b"secret\0value"}})))
    assert reply.status == 400
    (problem,) = reply.envelope["data"]["problems"]
    assert "zero byte" in problem["problem"]
    assert "Marbles.app.Parameters.Env.NOTE" in reply.envelope["message"]
    assert "secret" not in reply.envelope["message"].replace("secrets", "")


@pytest.mark.parametrize("name", ["shared", "nix", "NOTE", "", "note ", "secrets", "__class__"])
def test_one_name_without_permission_refuses_the_whole_upload_before_its_values(
    writing: Client, name: str
) -> None:
    uploads = {"note": {"key": b"new"}, name: {"key": b"x", "cert": b"garbage"}}
    reply = checked(writing.post(SECRETS, _encoded(uploads)))
    assert (reply.status, reply.envelope) == (
        403,
        {
            "status": "error",
            "data": None,
            "message": f'user "writer" has no permission WriteSecret on: "{name}"'
            " (give the user a role with this action and these resource names)",
        },
    )


def test_of_repeated_names_and_fields_the_last_counts(serving: Server) -> None:
    with as_writer(serving) as client:
        before = int(client.get("/api/v2/status").headers["keyhouse-state"].split(".")[1])
        for body, value in (
            (b'{"secrets":{"note":{"key":"AAAA"},"note":{"key":"AQID"}}}', b"\1\2\3"),
            (b'{"secrets":{"note":{"KEY":[7],"key":[107,110,111,119,110]}}} rest', b"known"),
        ):
            reply = checked(client.call("POST", SECRETS, body))
            assert reply.body == b'{"status":"success","data":null}\n'
            assert client.secrets(["note"]) == {"note": value}
        after = int(client.get("/api/v2/status").headers["keyhouse-state"].split(".")[1])
    assert after == before + 2
