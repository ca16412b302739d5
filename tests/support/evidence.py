"""Evidence files of an invented history.

The tests hold all keys, so they can change and sign the history again. If the format changes,
run ``python -m support.evidence`` to write ``golden_public`` again. Never rewrite the older
folder ``golden``: the format is permanent.
"""

import hashlib
import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from ssl import DER_cert_to_PEM_cert, PEM_cert_to_DER_cert
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from keyhouse.attestation import Measurements, read_expected_identity, write_collateral
from keyhouse.attestation.quote.binding import head_report_data, start_report_data
from keyhouse.authority import make_coordinator_keys, sign_log_key
from keyhouse.evidence.bundle import (
    MEDIA_TYPE,
    CertifiedLogKey,
    Evidence,
    QuotedHead,
    write_evidence,
)
from keyhouse.evidence.pins import Pins
from keyhouse.transparency.approval import Approval, DecisionKind, TreeHead as SeenHead
from keyhouse.transparency.keys import ED25519, VerifierKey, signature_of
from keyhouse.transparency.leaf import object_name
from keyhouse.transparency.note import Checkpoint, SignedNote
from keyhouse.transparency.policy import CosignaturePolicy
from keyhouse.transparency.sign_approval import sign_approval, signature_by
from keyhouse.transparency.tree import Frontier, leaf_hash
from keyhouse_simulation import SimulatedPlatform, make_machine
from keyhouse_simulation.attestation_file import write_expected_identity
from support.cosigner import Cosigner
from support.samples.deployment import user
from support.samples.updates import raise_version, together

__all__ = ["BEGUN", "GOLDEN", "GOLDEN_PUBLIC", "Maker", "Said", "golden_pins", "history", "written"]

Said = dict[str, Any]
"""The fields of a leaf.

The maker replaces a quote or an approval of ``None`` by a new object, and an approval of ``...``
by the last approval.
"""

BEGUN: Final = datetime(2026, 11, 22, 12, tzinfo=UTC)
FIRST = together(Transparency={"SignedApprovals": True})
SECOND = together(word="second")
GOLDEN: Final = Path(__file__).parents[1] / "evidence" / "golden"
"""A good recorded evidence file, and the files of its auditor.

The leaves do not state whether manifests are public: this field is newer (2026-11-23).
"""

GOLDEN_PUBLIC: Final = GOLDEN.with_name("golden_public")
"""The same for leaves with this field."""

_DECISIONS: Final = {
    "update-proposed": DecisionKind.PROPOSE,
    "update-approved": DecisionKind.APPROVE,
    "update-cancelled": DecisionKind.CANCEL,
    "packages-updated": DecisionKind.PACKAGES,
}
_CANONICAL: Final = {"sort_keys": True, "separators": (",", ":"), "ensure_ascii": False}


def written(said: Said) -> bytes:
    """Return the encoded leaf, without a check of the fields."""
    return json.dumps(said, **_CANONICAL).encode()  # type: ignore[arg-type]


class Maker:
    """A deployment with a platform, a log and three witnesses; two witnesses are a quorum.

    ``ml_dsa``: the third witness signs with ML-DSA, not with Ed25519. ``pace``: the time between
    the cosignatures of two successive leaves.
    """

    def __init__(self, *, ml_dsa: bool = True, pace: timedelta = timedelta(minutes=1)) -> None:
        self._pace = pace
        self.machine = make_machine(BEGUN)
        self.platform = SimulatedPlatform(self.machine, now=lambda: BEGUN)
        self.keys = make_coordinator_keys(
            dns_names=("localhost",),
            ip_addresses=(),
            curve="P-256",
            now=BEGUN,
            simulated=True,
        )
        self.root = self.keys.root_cert
        self.origin = f"keyhouse/{object_name(self.root)[:32]}"
        self.log = Ed25519PrivateKey.generate()
        self.key = VerifierKey(self.origin, ED25519, self.log.public_key().public_bytes_raw())
        self.witnesses = [Cosigner.ed25519(f"witness.example/{each}") for each in "ab"]
        third = Cosigner.mldsa44 if ml_dsa else Cosigner.ed25519
        self.witnesses.append(third("witness.example/c"))
        self._approved = ""
        self.collateral = write_collateral(self.platform.collateral)

    @property
    def policy(self) -> str:
        """The policy of an auditor."""
        lines = [f"witness W{n} {each.verifier}" for n, each in enumerate(self.witnesses)]
        return "\n".join((*lines, "group Q 2 W0 W1 W2", "quorum Q", ""))

    def pins(self, **changed: Any) -> Pins:
        """Return the pins of an auditor of this deployment; ``changed`` replaces pins."""
        given = {
            "root": object_name(self.root),
            "vendor_root": self.platform.root_ca,
            "identity": self.platform.expected_identity,
            "policy": CosignaturePolicy.read(self.policy),
            "now": BEGUN + timedelta(hours=2),
        }
        return Pins(**{**given, **changed})

    @property
    def trusted(self) -> dict[str, bytes]:
        """The files of an auditor of this deployment, by name."""
        return {
            "attestation.json": write_expected_identity(self.platform.expected_identity),
            "root.pem": DER_cert_to_PEM_cert(self.platform.root_ca).encode(),
            "witnesses.policy": self.policy.encode(),
            "root-fingerprint": object_name(self.root).encode() + b"\n",
        }

    def write_trusted(self, folder: Path) -> None:
        """Write the files of an auditor of this deployment."""
        for name, content in self.trusted.items():
            (folder / name).write_bytes(content)

    def evidence(
        self, said: Iterable[Said], *, milestones: Iterable[int] = (), seen: datetime = BEGUN
    ) -> Evidence:
        """Return the evidence of the given leaves.

        ``milestones``: the sizes of checkpoints; a checkpoint of the whole log follows.
        ``seen``: the start of the cosignatures' times.
        """
        present = SimulatedPlatform(self.machine, now=lambda: seen).collateral
        collateral = write_collateral(present)
        objects = {object_name(raw): raw for raw in (FIRST, SECOND, raise_version(4))}
        objects |= {object_name(each): each for each in (self.collateral, collateral)}
        grown, entries, notes = Frontier(), [], {}
        wanted = set(milestones)
        for leaf in said:
            raw = written(self._filled(leaf, grown, objects))
            entries.append(raw)
            grown = grown.extended([leaf_hash(raw)])
            notes[grown.size] = grown
        sizes = sorted({each for each in wanted if each < grown.size} | {grown.size})
        signed = [self.note(notes[size] if size else Frontier(), seen) for size in sizes]
        nonce = bytes(32)
        head = head_report_data(self.root, nonce, signed[-1].text)
        return Evidence(
            media_type=MEDIA_TYPE,
            made=_micro(BEGUN + timedelta(hours=1)),
            origin=self.origin,
            root=self.root,
            intermediate=self.keys.intermediate_cert,
            log=CertifiedLogKey(str(self.key), sign_log_key(self.keys, str(self.key))),
            head=QuotedHead(nonce, self.platform.quote(head), object_name(collateral)),
            checkpoints=tuple(each.encode().decode() for each in signed),
            entries=tuple(entries),
            objects=objects,
        )

    def note(self, tree: Frontier, seen: datetime = BEGUN) -> SignedNote:
        """Return the checkpoint of ``tree``, signed by the log and by all witnesses."""
        text = Checkpoint(self.origin, tree.size, tree.root).encode()
        time = int((seen + self._pace * tree.size).timestamp())
        lines = [each.line(text, time + n) for n, each in enumerate(self.witnesses)]
        return SignedNote(text, (signature_of(self.log, self.key, text), *lines))

    def _filled(self, said: Said, tree: Frontier, objects: dict[str, bytes]) -> Said:
        """Return ``said`` with a new quote or approval for this place; add it to ``objects``."""
        raw = None
        if said.get("quote", "") is None:
            raw = self._start_quote(said, tree)
            said = {**said, "quote": object_name(raw)}
        elif said.get("approval", "") is None:
            raw = self._approval(said, tree)
            said = {**said, "approval": object_name(raw)}
            self._approved = said["approval"]
        elif said.get("approval") is ...:
            said = {**said, "approval": self._approved}
        if raw is not None:
            objects[object_name(raw)] = raw
        return said

    def _start_quote(self, said: Said, tree: Frontier) -> bytes:
        data = start_report_data(self.root, bytes.fromhex(said["instance"]), tree.size, tree.root)
        unique = bytes.fromhex(said["unique"])
        measured = Measurements(unique, bytes.fromhex(said["signer"]), said["product"], said["svn"])
        return self.platform.seen_by(measured).quote(data)

    def _approval(self, said: Said, tree: Frontier) -> bytes:
        packages = said["kind"] == "packages-updated"
        approval = Approval(
            origin=self.origin,
            root=object_name(self.root),
            decision=_DECISIONS[said["kind"]],
            user=said["user"],
            base=said.get("base", object_name(FIRST)),
            manifest=object_name(raise_version(4)) if packages else said["manifest"],
            plan=said.get("plan", ""),
            head=SeenHead(tree.size, tree.root.hex()),
            time=said["time"],
        )
        key = load_pem_private_key(user(said["user"]).key_pem, None)
        return sign_approval(approval, lambda message: signature_by(key, message))


def history(maker: Maker) -> list[Said]:
    """Return a history with a signed update by two users, a package update, and two starts."""
    first, second = object_name(FIRST), object_name(SECOND)
    mine = object_name(maker.keys.intermediate_cert)
    log = {"origin": maker.origin, "root": object_name(maker.root), "key": str(maker.key)}
    decided = {"plan": "d" * 64, "approval": None}
    upload = {"uploads": [["writer", _certificate("writer"), ["note"]]]}
    said: list[Said] = [
        {"kind": "log-begun", **log, "platform": "simulation", "previous": None, "imported": ""},
        {
            "kind": "manifest-set", "manifest": first, "intermediate": mine, "recovery": None,
            "public": True,
        },
        _started(maker, 1),
        {"kind": "secrets-uploaded", **upload},
        {
            "kind": "packages-updated", **_by("releaser"), "base": first,
            "versions": [["app", "4"]], "intermediate": mine, **decided,
        },
        {
            "kind": "update-proposed", **_by("alice"), "base": first, "manifest": second,
            "needed": 2, "public": True, **decided,
        },
        {"kind": "update-approved", **_by("bob"), "manifest": second, "missing": 0, **decided},
        {
            "kind": "manifest-updated", "base": first, "manifest": second, "intermediate": mine,
            "recovery": None, "public": True,
        },
        {"kind": "secrets-uploaded", **upload},
        {"kind": "anchor", "at": f"2.5.{'0' * 64}", "nonce": "0" * 32, "activations": ""},
        _started(maker, 9),
    ]  # fmt: skip
    return [
        {"v": 1, "time": _micro(BEGUN + timedelta(seconds=30 * number)), **each}
        for number, each in enumerate(said)
    ]


def record(folder: Path) -> None:
    """Write a good evidence file and the files of its auditor."""
    maker = Maker()
    folder.mkdir(exist_ok=True)
    maker.write_trusted(folder)
    evidence = maker.evidence(history(maker), milestones=(3, 8))
    (folder / "deployment.evidence.json").write_bytes(write_evidence(evidence))


def golden_pins(folder: Path = GOLDEN, **changed: Any) -> Pins:
    """Return the pins of an auditor of the golden file in ``folder``."""
    der = PEM_cert_to_DER_cert((folder / "root.pem").read_text())
    given = {
        "root": (folder / "root-fingerprint").read_text().strip(),
        "vendor_root": der,
        "identity": read_expected_identity((folder / "attestation.json").read_bytes()),
        "policy": CosignaturePolicy.read((folder / "witnesses.policy").read_text()),
        "now": BEGUN + timedelta(hours=2),
    }
    return Pins(**{**given, **changed})


def _started(maker: Maker, sequence: int) -> Said:
    code = maker.platform.measurements
    return {
        "kind": "started",
        "at": f"2.{sequence}.{'0' * 64}" if sequence > 1 else f"1.1.{'0' * 64}",
        "instance": hashlib.sha256(b"%d" % sequence).hexdigest()[:32],
        "version": "0.1.0",
        "platform": "simulation",
        "unique": code.unique_id.hex(),
        "signer": code.signer_id.hex(),
        "product": code.product_id,
        "svn": code.security_version,
        "quote": None,
        "collateral": object_name(maker.collateral),
    }


def _by(name: str) -> Said:
    return {"user": name, "certificate": _certificate(name)}


def _certificate(name: str) -> str:
    return object_name(user(name).der)


def _micro(time: datetime) -> int:
    return int(time.timestamp()) * 1_000_000


if __name__ == "__main__":
    record(GOLDEN_PUBLIC)
