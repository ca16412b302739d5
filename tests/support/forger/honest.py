"""True random histories, by a small coordinator with the decisions of the real coordinator."""

import hashlib
from datetime import timedelta
from functools import cache
from random import Random
from typing import Final

from keyhouse.evidence.gaps import Gap
from keyhouse.manifest import decode
from keyhouse.transparency.leaf import object_name
from support.evidence import BEGUN, Maker, Said
from support.forger.draft import Draft
from support.samples.deployment import user
from support.samples.updates import raise_version, together

__all__ = ["LINES", "UPDATERS", "Coordinator", "certificate_of", "honest", "manifest_like"]

UPDATERS: Final = ("alice", "bob", "carol")
_HOLDERS: Final = ("rk0", "rk1", "rk2")
LINES: Final = b'{"update":"initial manifest set"}'


def certificate_of(name: str) -> str:
    """Return the hash of a user's certificate."""
    return object_name(user(name).der)


@cache
def manifest_like(
    word: str, threshold: int = 2, *, signed: bool = True, version: int = 3, holders: int = 0
) -> bytes:
    """Return a manifest that ``UPDATERS`` may update."""
    return together(
        lambda found: found["Packages"]["app"].update(SecurityVersion=version),
        holders=_HOLDERS[:holders],
        word=word,
        UpdateThreshold=threshold,
        RecoveryThreshold=min(holders, 2),
        Transparency={"SignedApprovals": signed},
    )


class Coordinator:
    """Appends the leaves of people's actions."""

    def __init__(self, maker: Maker, chance: Random, *, signed: bool, is_old: bool) -> None:
        self._maker = maker
        self._chance = chance
        self._signed = signed
        self._number = 0
        self._position = 0
        self._starts = 0
        self._version = 0
        self.draft = Draft([], {}, is_old=is_old)
        self.raw = b""

    @property
    def manifest(self) -> str:
        """The manifest in force."""
        return object_name(self.raw)

    def say(self, kind: str, **fields: object) -> None:
        """Append a leaf, 0, 20 or 40 seconds after the leaf before."""
        self._number += self._chance.choice((0, 20, 40))
        time = BEGUN + timedelta(seconds=self._number)
        leaf: Said = {"kind": kind, "v": 1, "time": int(time.timestamp()) * 1_000_000, **fields}
        if self.draft.is_old:
            leaf.pop("public", None)
        self.draft.said.append(leaf)

    def begin(self, how: str, raw: bytes = b"") -> None:
        """Begin the log.

        ``how``: ``new`` deployment, deployment ``older`` than the log, or the log ``replaces`` a
        log. ``raw``: the first manifest; empty: a random manifest.
        """
        maker = self._maker
        log = {"origin": maker.origin, "root": object_name(maker.root), "key": str(maker.key)}
        given: dict[str, object] = {"platform": "simulation", "previous": None, "imported": ""}
        self.raw = raw or self._next_manifest()
        if how == "new":
            self.say("log-begun", **log, **given)
            self.take_effect("manifest-set")
            self.start()
            return
        given["imported"] = self.draft.add(LINES)
        self.draft.gaps.add(Gap.REPLACES_LOG if how == "replaces" else Gap.OLDER_THAN_LOG)
        if how == "replaces":
            last = {"origin": "log.example.org/lost", "size": 9, "root": "e" * 64}
            given["previous"] = {**last, "reason": "--begin-new-log"}
        if not self.draft.is_old:
            given |= {"manifest": self.manifest, "intermediate": self.intermediate}
            given["public"] = True
        else:
            self.draft.gaps.add(Gap.RIGHTS_UNKNOWN)
        self.draft.add(self.raw)
        self._version = decode(self.raw).packages["app"].security_version or 0
        self.say("log-begun", **log, **given)
        self.start()

    @property
    def intermediate(self) -> str:
        """The hash of the intermediate certificate."""
        return object_name(self._maker.keys.intermediate_cert)

    def _next_manifest(self) -> bytes:
        chance = self._chance
        return manifest_like(
            f"word {chance.randrange(8)}",
            chance.choice((1, 2, 2, 3, 0)),
            signed=self._signed,
            version=chance.randrange(3, 6),
            holders=chance.choice((0, 3)),
        )

    def take_effect(self, kind: str, **fields: object) -> None:
        """Append the leaf that puts the manifest in force."""
        found = decode(self.raw)
        holders = len(found.recovery_keys)
        threshold = found.config.recovery_threshold
        recovery = {"holders": holders, "threshold": threshold} if holders else None
        self.draft.add(self.raw)
        self.say(
            kind, **fields, manifest=self.manifest, intermediate=self.intermediate,
            recovery=recovery, public=True,
        )  # fmt: skip
        self._version = found.packages["app"].security_version or 0

    def start(self, **changed: object) -> None:
        """Append a start with ``changed`` fields."""
        self._position += 1
        self._starts += 1
        code = self._maker.platform.measurements
        at = f"1.{self._position}.{'0' * 64}" if self._position > 1 else ""
        fields: Said = {
            "at": at, "platform": "simulation", "version": "0.1.0",
            "instance": hashlib.sha256(b"%d" % self._starts).hexdigest()[:32],
            "unique": code.unique_id.hex(), "signer": code.signer_id.hex(),
            "product": code.product_id, "svn": code.security_version, "quote": None,
            "collateral": object_name(self._maker.collateral),
        }  # fmt: skip
        self.say("started", **{**fields, **changed})

    def recover(self) -> None:
        """Append a recovery by two holders, and a start; do nothing without holders."""
        holders = list(decode(self.raw).recovery_keys)
        if not holders:
            return
        at = f"1.{self._position + 1}.{'0' * 64}"
        self.say("recovered", at=at, holders=self._chance.sample(holders, 2))
        self._position = max(self._position, 1)
        self.start()

    def anchor(self) -> None:
        """Append an anchor."""
        self._position += self._chance.choice((1, 7))
        at = f"1.{self._position + 1}.{'0' * 64}"
        self._position += 1
        nonce = f"{self._chance.getrandbits(128):032x}"
        self.say("anchor", at=at, nonce=nonce, activations="")

    def upload(self) -> None:
        """Append an upload."""
        self.say("secrets-uploaded", uploads=[["writer", certificate_of("writer"), ["note"]]])

    def raise_versions(self) -> None:
        """Append a package update."""
        if self.draft.is_old and not self.raw:
            return
        self._version += self._chance.randrange(3)
        update = self.draft.add(raise_version(self._version))
        self.say(
            "packages-updated", **self.by("releaser"), base=self.manifest, _update=update,
            versions=[["app", str(self._version)]], intermediate=self.intermediate,
        )  # fmt: skip

    def update(self) -> None:
        """Append an update, from the proposal to the result."""
        new, chance = self._next_manifest(), self._chance
        members = list(UPDATERS)
        chance.shuffle(members)
        needed = decode(self.raw).config.update_threshold or len(members)
        named, base = self.draft.add(new), self.manifest
        self.say(
            "update-proposed", **self.by(members[0]), base=base, manifest=named, needed=needed,
            public=True,
        )  # fmt: skip
        for place, member in enumerate(members[1:needed], 2):
            self._between()
            if chance.random() < 0.15:
                self.say(
                    "update-cancelled", **self.by(member, plan=False), _base=base, manifest=named
                )
                return
            if chance.random() < 0.2 and place < needed:  # a user may agree again
                again = {"_base": base, "manifest": named, "missing": needed - place + 1}
                self.say("update-approved", **self.by(members[0]), **again)
            missing = needed - place
            self.say(
                "update-approved", **self.by(member), _base=base, manifest=named, missing=missing
            )
        self.raw = new
        self.take_effect("manifest-updated", base=base)

    def _between(self) -> None:
        if self._chance.random() < 0.3:
            self._chance.choice((self.upload, self.anchor, self.start))()

    def by(self, name: str, *, plan: bool = True) -> Said:
        """Return the fields of a leaf about a decision of the user ``name``."""
        said: Said = {"user": name, "certificate": certificate_of(name), "approval": None}
        if plan:
            said["plan"] = self._chance.choice(("", "d" * 64))
        if not self._signed and self._chance.random() < 0.5:
            said["approval"] = ""
            self.draft.gaps.add(Gap.NOT_SIGNED)
        return said


def honest(maker: Maker, chance: Random, *, plain: bool = False) -> Draft:
    """Return a true history; a ``plain`` history has no gap and a leaf of every kind."""
    is_old = chance.random() < 0.25
    signed = plain or chance.random() < 0.6
    made = Coordinator(maker, chance, signed=signed, is_old=is_old)
    how = "new" if plain else chance.choice(("new", "new", "older", "replaces"))
    made.begin(how)
    steps = [made.upload, made.anchor, made.start, made.raise_versions, made.update, made.recover]
    todo = [*(steps if plain else ()), *chance.choices(steps, k=chance.randrange(2, 6))]
    chance.shuffle(todo)
    for step in todo:
        step()
    draft = made.draft
    draft.milestones = {chance.randrange(1, len(draft.said) + 1) for _ in range(2)}
    if draft.is_old and how != "new":
        _without_rights(draft)
    return draft


def _without_rights(draft: Draft) -> None:
    """Remove the gap of unknown rights if no early leaf needs a right.

    Uploads and recoveries need a right. Early leaves precede the first leaf with a base.
    """
    named = next((n for n, each in enumerate(draft.said) if "base" in each), len(draft.said))
    early = {each["kind"] for each in draft.said[:named]}
    if "secrets-uploaded" not in early and "recovered" not in early:
        draft.gaps.discard(Gap.RIGHTS_UNKNOWN)
    if all("intermediate" not in each for each in draft.said):
        draft.gaps.add(Gap.INTERMEDIATE_UNKNOWN)
