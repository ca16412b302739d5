"""An unsigned history, and its evidence; the tests hold all keys."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from cryptography.hazmat.primitives.serialization import load_pem_private_key
from msgspec.structs import replace

from keyhouse.attestation import Measurements, quote_binding, write_collateral
from keyhouse.attestation.quote.binding import head_report_data, start_report_data
from keyhouse.authority import sign_log_key
from keyhouse.evidence.bundle import MEDIA_TYPE, CertifiedLogKey, Evidence, QuotedHead
from keyhouse.evidence.gaps import Gap
from keyhouse.transparency.approval import Approval, DecisionKind, TreeHead as SeenHead
from keyhouse.transparency.keys import signature_of
from keyhouse.transparency.leaf import object_name
from keyhouse.transparency.note import Checkpoint, SignedNote
from keyhouse.transparency.sign_approval import sign_approval, signature_by
from keyhouse.transparency.tree import Frontier, leaf_hash
from keyhouse_simulation import Pck, QuoteParameters, SimulatedPlatform, make_machine
from support.evidence import BEGUN, Maker, Said, written
from support.samples.deployment import user

__all__ = ["DECISIONS", "Draft", "Machine", "Noted", "built", "cosigned"]

DECISIONS: Final = {
    "update-proposed": DecisionKind.PROPOSE,
    "update-approved": DecisionKind.APPROVE,
    "update-cancelled": DecisionKind.CANCEL,
    "packages-updated": DecisionKind.PACKAGES,
}

Noted = Callable[[Maker, "Draft", Frontier], SignedNote]
"""Makes the signed checkpoint of a tree."""


@dataclass
class Draft:
    """A history, and the rules to build each part of its evidence. A forgery changes a part.

    A leaf is a dictionary of fields. The file lacks the fields that begin with ``_``. They control
    the objects of the leaf: ``_approval`` (values of the payload), ``_signer`` (a user), ``_at``
    (the size of the head that the user has signed), ``_sign`` (a function that signs a message
    with a key), ``_envelope`` (a change of the bytes), ``_quote`` (values that the quote binds),
    ``_raw`` (a change of the leaf's bytes).
    """

    said: list[Said]
    objects: dict[str, bytes]
    gaps: set[Gap] = field(default_factory=set)  # the gaps of the true history
    milestones: set[int] = field(default_factory=set)
    seen: datetime = BEGUN
    is_old: bool = False  # an older version: leaves do not state whether manifests are public
    pins: dict[str, Any] = field(default_factory=dict)
    trusted: dict[str, bytes | None] = field(default_factory=dict)  # further files of the auditor
    head: dict[str, Any] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)  # objects that the file lacks
    note: Noted = field(default=lambda maker, draft, tree: cosigned(maker, draft, tree))  # noqa: PLW0108 defined below
    changes: list[Callable[[Maker, Evidence], Evidence]] = field(default_factory=list)
    rewrites: list[Callable[[bytes], bytes]] = field(default_factory=list)

    def add(self, raw: bytes) -> str:
        """Add an object; return its name."""
        self.objects[object_name(raw)] = raw
        return object_name(raw)

    def of(self, *kinds: str) -> list[int]:
        """Return the places of all leaves of these kinds."""
        return [place for place, each in enumerate(self.said) if each["kind"] in kinds]


def built(maker: Maker, draft: Draft) -> Evidence:
    """Return the evidence of ``draft`` with all signatures."""
    collateral = _bundle(maker, draft.head.get("parameters"), draft.head.get("seen", BEGUN))
    objects = {**draft.objects, object_name(maker.collateral): maker.collateral}
    objects[object_name(collateral)] = collateral
    grown, entries, notes = Frontier(), [], {0: Frontier()}
    for leaf in draft.said:
        seen = notes.get(leaf.get("_at", grown.size), grown)
        raw = _entry(maker, leaf, grown, objects, seen)
        entries.append(raw)
        grown = grown.extended([leaf_hash(raw)])
        notes[grown.size] = grown
    sizes = sorted({each for each in draft.milestones if 0 < each < grown.size} | {grown.size})
    signed = [draft.note(maker, draft, notes[size]) for size in sizes]
    found = Evidence(
        media_type=MEDIA_TYPE,
        made=int((BEGUN + timedelta(hours=1)).timestamp()) * 1_000_000,
        origin=maker.origin,
        root=maker.root,
        intermediate=maker.keys.intermediate_cert,
        log=CertifiedLogKey(str(maker.key), sign_log_key(maker.keys, str(maker.key))),
        head=_head(maker, draft, signed[-1].text, collateral),
        checkpoints=tuple(each.encode().decode() for each in signed),
        entries=tuple(entries),
        objects={name: raw for name, raw in objects.items() if name not in draft.lost},
    )
    for change in draft.changes:
        found = change(maker, found)
    return found


def cosigned(
    maker: Maker,
    draft: Draft,
    tree: Frontier,
    *,
    times: tuple[timedelta, ...] = (timedelta(), timedelta(seconds=1), timedelta(seconds=2)),
    text: bytes = b"",
) -> SignedNote:
    """Return the checkpoint of ``tree``, signed by the log and cosigned by the first witnesses.

    ``times``: for each of these witnesses, the delay after the usual time of the checkpoint.
    ``text``: the signed text, if it is not the text of ``tree``.
    """
    text = text or Checkpoint(maker.origin, tree.size, tree.root).encode()
    base = draft.seen + timedelta(minutes=tree.size)
    lines = [
        witness.line(text, max(int((base + later).timestamp()), 0))
        for witness, later in zip(maker.witnesses, times, strict=False)
    ]
    return SignedNote(text, (signature_of(maker.log, maker.key, text), *lines))


def _head(maker: Maker, draft: Draft, text: bytes, collateral: bytes) -> QuotedHead:
    how = draft.head
    nonce = how.get("nonce", bytes(32))
    data = how.get("data") or head_report_data(
        how.get("root", maker.root), nonce, how.get("text", text)
    )
    platform = _platform(maker, how.get("machine"))
    code = how.get("code")
    quote = (platform if code is None else platform.seen_by(code)).quote(data)
    quote = how.get("rewrite", bytes)(quote)
    return QuotedHead(how.get("shown", nonce), quote, object_name(collateral))


class Machine(NamedTuple):
    """The machine of a quote; ``is_strange``: a different vendor has made the machine."""

    parameters: QuoteParameters = QuoteParameters()
    pck: Pck | None = None
    is_strange: bool = False


_platforms: dict[tuple[Maker, Machine], SimulatedPlatform] = {}
_bundles: dict[tuple[Maker, QuoteParameters, datetime], bytes] = {}


def _platform(maker: Maker, machine: Machine | None) -> SimulatedPlatform:
    if machine is None:
        return maker.platform
    if (maker, machine) not in _platforms:
        own = maker.machine
        if machine.is_strange:
            own = make_machine(BEGUN)
        elif machine.pck is not None:
            own = make_machine(BEGUN, machine.pck, beside=maker.machine)
        made = SimulatedPlatform(own, machine.parameters, now=lambda: BEGUN)
        _platforms[maker, machine] = made
    return _platforms[maker, machine]


def _bundle(maker: Maker, parameters: QuoteParameters | None, at: datetime = BEGUN) -> bytes:
    """Return the collateral of the deployment's machine ``at`` a time, with ``parameters``."""
    if parameters is None and at == BEGUN:
        return maker.collateral
    given = parameters or QuoteParameters()
    if (maker, given, at) not in _bundles:
        platform = SimulatedPlatform(maker.machine, given, now=lambda: at)
        _bundles[maker, given, at] = write_collateral(platform.collateral)
    return _bundles[maker, given, at]


def _entry(
    maker: Maker, leaf: Said, tree: Frontier, objects: dict[str, bytes], seen: Frontier
) -> bytes:
    """Return a leaf after ``tree``. ``seen``: the head that the user has signed."""
    how = {name: value for name, value in leaf.items() if name.startswith("_")}
    said = {name: value for name, value in leaf.items() if not name.startswith("_")}
    if "_collateral" in how:
        raw = _bundle(maker, how["_collateral"])
        said["collateral"] = object_name(raw)
        objects[said["collateral"]] = raw
    if said.get("quote", "") is None:
        raw = _start_quote(maker, said, tree, how.get("_quote", {}))
        said["quote"] = object_name(raw)
        objects[said["quote"]] = raw
    if said.get("approval", "") is None:
        raw = how.get("_envelope", bytes)(_approval(maker, said, seen, how))
        said["approval"] = object_name(raw)
        objects[said["approval"]] = raw
    # The approval of an earlier leaf, by its number among the approvals.
    if isinstance(said.get("approval"), int):
        approvals = [name for name, each in objects.items() if each.startswith(b'{"payload"')]
        said["approval"] = approvals[min(said["approval"], len(approvals) - 1)]
    raw = written(said)
    changed: bytes = how.get("_raw", bytes)(raw)
    return changed


def _start_quote(maker: Maker, said: Said, tree: Frontier, how: dict[str, Any]) -> bytes:
    data = start_report_data(
        how.get("root", maker.root),
        how.get("instance", bytes.fromhex(said["instance"])),
        how.get("size", tree.size),
        how.get("tree", tree.root),
    )
    own = Measurements(
        bytes.fromhex(said["unique"]), bytes.fromhex(said["signer"]), said["product"], said["svn"]
    )
    if how.get("alone"):
        data = quote_binding(maker.root) + bytes(32)
    platform = _platform(maker, how.get("machine"))
    seen = platform if "machine" in how else platform.seen_by(how.get("code", own))
    quote: bytes = how.get("rewrite", bytes)(seen.quote(how.get("data") or data))
    return quote


def _approval(maker: Maker, said: Said, tree: Frontier, how: dict[str, Any]) -> bytes:
    base = how.get("_base", said.get("base", "0" * 64))
    given = {
        "origin": maker.origin,
        "root": object_name(maker.root),
        "decision": DECISIONS[said["kind"]],
        "user": said["user"],
        "base": base,
        "manifest": how.get("_update") or said.get("manifest", "0" * 64),
        "plan": said.get("plan", ""),
        "head": SeenHead(tree.size, tree.root.hex()),
        "time": said["time"],
    }
    approval = replace(Approval(**given), **how.get("_approval", {}))
    key = load_pem_private_key(user(how.get("_signer", said["user"])).key_pem, None)
    sign = how.get("_sign", signature_by)
    return sign_approval(approval, lambda message: sign(key, message))
