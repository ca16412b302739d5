"""What has to hold before a holder's client decrypts or sends anything; then what it sends."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from support.peers.peer import Certified, Peer, certify, serving, success
from support.process.command import Ended, run
from support.samples.fixed_keys import RSA_4096
from support.samples.recovery import OAEP, holder

from keyhouse.base.secret import Secret
from keyhouse.client import (
    Coordinator,
    HolderKey,
    TrustError,
    encrypt_share,
    require_listed,
    require_root,
    require_signed,
    verify_coordinator,
)
from keyhouse_simulation.folder import open_platform

ANN = holder("rk0")
EPHEMERAL = RSA_4096
SHARE = bytes(range(33))
KEY_PATH = ("GET", "/api/v2/recover/public-key")
UPLOAD_PATH = ("POST", "/api/v2/recover")


def _spki(key: rsa.RSAPrivateKey) -> bytes:
    return _public(key.public_key())


def _public(key: rsa.RSAPublicKey) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _offer(peer: Peer, kept: Certified, **bent: Any) -> dict[str, Any]:
    """Return what a true coordinator answers, but for what is bent."""
    public = bent.pop("ephemeral", _spki(EPHEMERAL))
    signer: Certified = bent.pop("signer", peer.root)
    context = bent.pop("context", b"keyhouse ephemeral v1\0")
    index = {
        "root": kept.der,
        "manifestFingerprint": "00" * 32,
        "storeId": "00" * 16,
        "epoch": 1,
        "threshold": 1,
        "keys": {"ann": _spki(ANN.key)},
    }
    return {
        "algorithm": "RSA",
        "ephemeralPublicKey": public,
        "signature": signer.key.sign(context + public, ec.ECDSA(hashes.SHA256())),
        "index": index | bent,
        "received": [],
    }


class Scene:
    """A peer in recovery mode, the root of the state that it would recover, and a holder's files.

    ``root`` is what the holder kept; ``peer.root`` the temporary one of the recovery mode.
    """

    def __init__(self, folder: Path, **bent: Any) -> None:
        self.folder = folder
        self.peer = Peer.new(open_platform(folder / "simulation"))
        self.root = certify("the root of the deployment")
        self.peer.replies[KEY_PATH] = success(_offer(self.peer, self.root, **bent))
        self.peer.replies[UPLOAD_PATH] = success({"remaining": 1, "message": "one more"})
        (folder / "root.pem").write_bytes(self.root.pem)
        (folder / "ann.key").write_bytes(ANN.private_pem)
        ciphertext = ANN.key.public_key().encrypt(SHARE, OAEP)
        secrets = {"RecoverySecrets": {"ann": base64.b64encode(ciphertext).decode()}}
        (folder / "recovery.json").write_text(json.dumps(secrets))

    def upload(self, *words: str) -> Ended:
        """Run ``keyhouse recover upload`` with these words, where the files are."""
        return self.recover("upload", "recovery.json", *words)

    def recover(self, *words: str) -> Ended:
        """Run ``keyhouse recover`` with these words, where the files are."""
        known = {"--root", "--unverified-deployment", "--coordinator-cert"} & {*words}
        kept = [] if known else ["--root", "root.pem"]
        with serving(self.peer, self.folder) as address:
            return run(
                *("recover", *words, str(address), *kept),
                *("--attestation", "simulation/attestation.json"),
                *("--simulation-root", "simulation/root.pem"),
                folder=self.folder,
            )

    @property
    def uploads(self) -> list[dict[str, str]]:
        """What was sent."""
        return [json.loads(body) for method, _, body in self.peer.requests if method == "POST"]


@contextmanager
def _session(scene: Scene) -> Iterator[Coordinator]:
    peer = scene.peer
    with serving(peer, scene.folder) as address:
        trusted = verify_coordinator(
            address,
            expected=peer.platform.expected_identity,
            root_ca_der=peer.platform.root_ca,
            collateral=peer.platform.collateral,
        )
        with Coordinator(trusted) as coordinator:
            yield coordinator


def _sent(scene: Scene) -> tuple[bytes, bytes]:
    (body,) = scene.uploads
    secret, signature = body["recoverySecret"], body["recoverySecretSignature"]
    return EPHEMERAL.decrypt(base64.b64decode(secret), OAEP), base64.b64decode(signature)


@pytest.mark.parametrize(
    "root", [("--root", "root.pem"), ("--unverified-deployment",)], ids=["root compared", "no root"]
)
def test_share_is_decrypted_signed_and_sent_under_the_ephemeral_key(
    tmp_path: Path, root: tuple[str, ...]
) -> None:
    scene = Scene(tmp_path)
    ended = scene.upload("--key", "ann.key", "--json", *root)
    assert ended.code == 0, ended.err
    assert json.loads(ended.out) == {"remaining": 1, "message": "one more"}
    assert _sent(scene) == (SHARE, ANN.sign(SHARE))


@pytest.mark.parametrize("form", [("--json",), ()], ids=["JSON", "text"])
def test_ephemeral_key_is_in_the_file_that_is_named(tmp_path: Path, form: tuple[str, ...]) -> None:
    ended = Scene(tmp_path).recover("public-key", "--root", "root.pem", "-o", "key.pem", *form)

    assert ended.code == 0, ended.err
    key = (tmp_path / "key.pem").read_text()
    assert key.startswith("-----BEGIN PUBLIC KEY-----\n")
    assert json.loads(ended.out)["publicKey"] == key if form else ended.out == ""


def test_decrypted_share_goes_with_a_signature_made_elsewhere(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    (tmp_path / "recovery.json").write_bytes(SHARE)
    (tmp_path / "signature").write_bytes(ANN.sign(SHARE))
    ended = scene.upload("--signature", "signature", "--root", "root.pem")
    assert ended.code == 0, ended.err
    assert _sent(scene) == (SHARE, ANN.sign(SHARE))


def test_decrypted_share_is_signed_with_the_key(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    (tmp_path / "recovery.json").write_bytes(base64.b64encode(SHARE) + b"\n")
    assert scene.upload("--key", "ann.key", "--root", "root.pem").code == 0
    assert _sent(scene) == (SHARE, ANN.sign(SHARE))


# Nobody has its private key, and nobody needs it: nothing is encrypted to it.
SWAPPED = rsa.RSAPublicNumbers(65537, EPHEMERAL.public_key().public_numbers().n + 2).public_key()
ATTACKS: dict[str, tuple[dict[str, Any], str]] = {
    "the ephemeral key is swapped": (
        {"ephemeral": _public(SWAPPED), "signer": certify("someone")},
        "not signed by the coordinator's root",
    ),
    "the key is signed for another purpose": (
        {"context": b""},
        "not signed by the coordinator's root",
    ),
    "the key is weak": ({"ephemeral": _spki(ANN.key)}, "not an RSA key of 4096 bits"),
    "the key is none": ({"ephemeral": b"no key"}, "not an RSA key of 4096 bits"),
    "the root is another": (
        {"root": certify("the root of the deployment").der},
        "not have the root certificate that you kept",
    ),
    "the keys are replaced": (
        {"keys": {"ann": _spki(holder("attacker").key)}},
        "your key is not among the recovery keys",
    ),
    "there are no keys": ({"keys": {}}, "your key is not among the recovery keys"),
}


@pytest.mark.parametrize(("bent", "said"), ATTACKS.values(), ids=ATTACKS)
def test_client_sends_nothing_when(tmp_path: Path, bent: dict[str, Any], said: str) -> None:
    scene = Scene(tmp_path, **bent)
    ended = scene.upload("--key", "ann.key", "--root", "root.pem")
    assert ended.code == 4, ended.err
    assert said in ended.err
    assert ended.out == ""
    assert scene.uploads == []


def test_client_sends_nothing_to_a_peer_that_proves_nothing(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.peer.answer_nonce = b"of another day"
    ended = scene.upload("--key", "ann.key", "--root", "root.pem")
    assert (ended.code, scene.uploads) == (4, [])
    assert not [path for _, path, _ in scene.peer.requests if "recover" in path]


def test_signature_of_someone_else_is_not_sent(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    (tmp_path / "recovery.json").write_bytes(SHARE)
    (tmp_path / "signature").write_bytes(holder("attacker").sign(SHARE))
    ended = scene.upload("--signature", "signature", "--root", "root.pem")
    assert (ended.code, scene.uploads) == (4, [])
    assert "no recovery key" in ended.err


def test_coordinator_that_is_under_another_root_afterwards_is_not_trusted(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.peer.replies[UPLOAD_PATH] = success({"remaining": 0, "message": "recovered"})
    ended = scene.upload("--key", "ann.key", "--root", "root.pem")  # it still shows the temporary
    assert ended.code == 4
    assert "the coordinator's root differs from the root of its recovery offer" in ended.err


FILES: dict[str, tuple[dict[str, bytes], tuple[str, ...], str]] = {
    "no key and no signature": ({}, (), "no key and no signature for the recovery secret"),
    "key is none": (
        {"ann.key": b"no key"},
        ("--key", "ann.key"),
        "error: ann.key: the recovery key does not hold a PEM private key",
    ),
    "secret is for another": (
        {"recovery.json": bytes(256)},
        ("--key", "ann.key"),
        "not encrypted to this recovery key",
    ),
    "no such name": ({}, ("--key", "ann.key", "--name", "ben"), 'has no recovery secret "ben"'),
    "no secrets": ({"recovery.json": b"{}"}, ("--key", "ann.key"), "has no recovery secrets"),
    "not JSON": ({"recovery.json": b"{"}, ("--key", "ann.key"), "invalid JSON"),
    "root is none": (
        {"root.pem": b"no root"},
        ("--key", "ann.key", "--root", "root.pem"),
        "does not hold a PEM certificate",
    ),
    "file is missing": ({}, ("--key", "gone.key"), "cannot read gone.key"),
}


@pytest.mark.parametrize(("files", "words", "said"), FILES.values(), ids=FILES)
def test_wrong_file_is_refused_by_name(
    tmp_path: Path, files: dict[str, bytes], words: tuple[str, ...], said: str
) -> None:
    scene = Scene(tmp_path)
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    ended = scene.upload(*words)
    assert ended.code == 1, ended.err
    assert said in ended.err
    assert scene.uploads == []


def test_sdk_judges_offers_like_the_command(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    with _session(scene) as coordinator:
        offer = coordinator.recovery_offer()
        require_root(offer, scene.root.der)
        with pytest.raises(TrustError):
            require_root(offer, scene.peer.root.der)
        own = HolderKey(Secret(ANN.private_pem))
        assert require_listed(offer, own.public_key) == "ann"
        share = Secret(SHARE)
        assert require_signed(offer, share, own.sign(share)) == "ann"
        encrypted = encrypt_share(offer.ephemeral_public_key, share)
        assert coordinator.recover(encrypted, own.sign(share)).remaining == 1
    assert _sent(scene) == (SHARE, ANN.sign(SHARE))


class _SwappedToken:
    """A token that has the holder's certificate and another private key to sign with."""

    public_key = _spki(ANN.key)

    def decrypt(self, ciphertext: bytes) -> Secret:
        return HolderKey(Secret(ANN.private_pem)).decrypt(ciphertext)

    def sign(self, share: Secret) -> bytes:
        return holder("attacker").sign(share.reveal())


def test_sdk_decrypts_nothing_for_a_state_without_the_holders_key(tmp_path: Path) -> None:
    """The kept root is public, so an index that was made up can name it."""
    scene = Scene(tmp_path, keys={"ann": _spki(holder("attacker").key)})
    own = HolderKey(Secret(ANN.private_pem))
    with _session(scene) as coordinator, pytest.raises(TrustError, match="not among"):
        # It could not be decrypted, which would be another error.
        coordinator.recover_with(own, b"no share", scene.root.der)
    assert scene.uploads == []


def test_sdk_sends_no_share_with_a_signature_of_another_key(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    ciphertext = ANN.key.public_key().encrypt(SHARE, OAEP)
    with _session(scene) as coordinator, pytest.raises(TrustError, match="no recovery key"):
        coordinator.recover_with(_SwappedToken(), ciphertext, scene.root.der)
    assert scene.uploads == []


def test_kept_certificates_are_compared_like_the_root(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    other = certify("the root of the deployment")
    (tmp_path / "kept.pem").write_bytes(other.pem)
    ended = scene.upload("--key", "ann.key", "--coordinator-cert", "kept.pem")
    assert ended.code == 4, ended.err
    assert "not have the root certificate that you kept" in ended.err
    assert scene.uploads == []
