"""Policies of witnesses (C2SP tlog-policy): the cosignatures that a checkpoint needs.

A policy is a text of lines: ``log``, ``witness``, ``group`` and one ``quorum``. Its groups form a
tree. Every witness and every group occurs at most once in the tree, so the numbers of tolerated
liars and outages are exact.
"""

import re
from collections.abc import Collection, Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

import msgspec

from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.keys import COSIGNED, COSIGNED_MLDSA44, ED25519, VerifierKey, verified
from keyhouse.transparency.note import SignedNote

POLICY_BYTES: Final = 64 * 1024
"""Maximum length in bytes of a policy; 16 witnesses with ML-DSA-44 keys have 32 KB."""

MOST_WITNESSES: Final = 32
"""Maximum of witnesses, below the maximum of signatures in a note (with the log's signature)."""

_NONE: Final = "none"
_THRESHOLD: Final = r"any|all|[1-9][0-9]{0,2}"


class Witness(msgspec.Struct, frozen=True):
    """A line ``witness`` of a policy: a name within this policy, a key, and a URL.

    Checkpoints are submitted to ``url`` with ``/add-checkpoint`` appended. "": no URL is given.
    """

    name: str
    key: VerifierKey
    url: str = ""

    @property
    def liars(self) -> int:
        """The number of lying witnesses with which two contradicting cosignatures can exist.

        Always 1: this witness alone. A group computes the number from its members.
        """
        return 1

    @property
    def outages(self) -> int:
        """The number of failing witnesses without which no cosignature is possible.

        Always 1: this witness alone. A group computes the number from its members.
        """
        return 1

    def holds(self, signed: Collection[VerifierKey]) -> bool:
        """Return whether ``signed``, keys of witnesses, contains the key of this witness."""
        return self.key in signed

    def require_url(self) -> None:
        """Check the form of the URL, before checkpoints are submitted to it.

        Raises ``LogInvalidError`` unless the URL is https, or http to a loopback address, with a
        host, and without user, query and fragment.
        """
        try:
            url = urlsplit(self.url)
            host, port = url.hostname, url.port
        except ValueError:
            raise LogInvalidError(
                "the URL of a witness is invalid: it must be https://HOST/PATH"
            ) from None
        if not host or port == 0 or any(char in self.url for char in "@?#"):
            raise LogInvalidError(
                "the URL of a witness must be https://HOST/PATH without user, query and fragment"
            )
        if url.scheme != "https" and not (url.scheme == "http" and _is_loopback(host)):
            raise LogInvalidError(
                "the URL of a witness must be https, or http with a loopback address"
            )


class WitnessGroup(msgspec.Struct, frozen=True):
    """A group of witnesses in a policy. At least ``needed`` of its members must cosign."""

    name: str
    needed: int
    members: tuple["WitnessGroup | Witness", ...]

    @property
    def liars(self) -> int:
        """The smallest number of lying witnesses with which two contradictory checkpoints pass.

        Each checkpoint needs the cosignatures of ``needed`` members. Two sets of ``needed`` members
        may have members in common, and each common member must lie.
        """
        common = max(2 * self.needed - len(self.members), 0)
        return sum(sorted(each.liars for each in self.members)[:common])

    @property
    def outages(self) -> int:
        """The smallest number of failing witnesses that prevents every quorum of this group."""
        missing = len(self.members) - self.needed + 1
        return sum(sorted(each.outages for each in self.members)[:missing])

    def holds(self, signed: Collection[VerifierKey]) -> bool:
        """Return whether the keys ``signed`` satisfy the group."""
        return sum(each.holds(signed) for each in self.members) >= self.needed


class CosignaturePolicy(msgspec.Struct, frozen=True):
    """A policy: its logs, witnesses and quorum. ``quorum`` None: no witness must cosign.

    The text of such a policy has the line ``quorum none``.
    """

    logs: tuple[VerifierKey, ...]
    witnesses: tuple[Witness, ...]
    quorum: WitnessGroup | Witness | None

    @classmethod
    def read(cls, text: str) -> "CosignaturePolicy":
        """Return the policy in ``text``.

        Raises ``LogInvalidError``, which names the number of the line but not its content.
        """
        if len(text.encode(errors="replace")) > POLICY_BYTES:
            raise LogInvalidError(f"the policy has more than the permitted {POLICY_BYTES} bytes")
        reader = _PolicyReader()
        for number, line in enumerate(text.split("\n"), 1):
            try:
                reader.read(line)
            except LogInvalidError as fault:
                raise LogInvalidError(f"line {number} of the policy: {fault.message}") from None
        return reader.finish()

    @property
    def tolerated_liars(self) -> int:
        """The largest number of lying witnesses that this policy withstands.

        With a further liar, two contradictory checkpoints could both have a quorum. -1: both could
        have a quorum although no witness lies.
        """
        return (self.quorum.liars if self.quorum is not None else 0) - 1

    @property
    def tolerated_outages(self) -> int:
        """The number of witnesses that may fail, in any combination, without loss of the quorum."""
        return self.quorum.outages - 1 if self.quorum is not None else len(self.witnesses)

    def holds(self, signed: Collection[VerifierKey]) -> bool:
        """Return whether the keys ``signed`` are a quorum."""
        return self.quorum is None or self.quorum.holds(signed)

    def require(self, note: SignedNote, log: VerifierKey) -> Mapping[VerifierKey, int]:
        """Return the witnesses that cosigned ``note`` of ``log``, with their times (s since 1970).

        Raises ``LogInvalidError`` if the signature of ``log`` or a quorum is missing, and for an
        invalid signature of ``log`` or of a witness in this policy.
        """
        times_by_key = verified(note, [log, *(each.key for each in self.witnesses)])
        if log not in times_by_key:
            raise LogInvalidError("the log has not signed the checkpoint")
        times = {key: time for key, time in times_by_key.items() if key != log}
        if not self.holds(times):
            raise LogInvalidError(
                "the checkpoint has no quorum of the policy's witnesses",
                hint="give each witness of a new deployment the key of its log, which"
                " keyhouse log key HOST prints",
            )
        return times


class _PolicyReader:
    """Reads the lines of a policy. A line may use only names of earlier lines."""

    def __init__(self) -> None:
        self._logs: list[VerifierKey] = []
        self._witnesses: list[Witness] = []
        self._defined: dict[str, WitnessGroup | Witness | None] = {_NONE: None}
        self._grouped = {_NONE}  # names in a group, or not allowed in any group
        self._quorum = ""

    def read(self, line: str) -> None:
        """Read a line of the policy. Raises ``LogInvalidError``."""
        if any(not char.isprintable() and char not in "\t\r" for char in line):
            raise LogInvalidError("the line has a control character")
        match re.split(r"[ \t]+", line.strip(" \t\r")):
            case [""]:
                pass
            case [first, *_] if first.startswith("#"):
                pass
            case ["log", key, *url] if len(url) <= 1:
                self._log(key)
            case ["witness", name, key, *url] if len(url) <= 1:
                self._witness(name, key, "".join(url))
            case ["group", name, threshold, *members] if members:
                self._group(name, threshold, members)
            case ["quorum", name]:
                self._set_quorum(name)
            case _:
                raise LogInvalidError(
                    "the line does not have the form of a log, witness, group or quorum line"
                )

    def finish(self) -> CosignaturePolicy:
        """Return the policy. Raises ``LogInvalidError`` without a quorum line."""
        if not self._quorum:
            raise LogInvalidError("the policy has no quorum line; it must have exactly one")
        return CosignaturePolicy(
            tuple(self._logs), tuple(self._witnesses), self._defined[self._quorum]
        )

    def _log(self, text: str) -> None:
        key = VerifierKey.read(text)
        if key.kind != ED25519 or key in self._logs:
            raise LogInvalidError(
                "the key of the log must be an Ed25519 key, and must occur only once"
            )
        self._logs.append(key)

    def _witness(self, name: str, text: str, url: str) -> None:
        key = VerifierKey.read(text)
        if key.kind not in {COSIGNED, COSIGNED_MLDSA44}:
            raise LogInvalidError(
                "the key of the witness must be a key for cosignatures with a time"
            )
        if any(key.public == each.key.public for each in self._witnesses):
            raise LogInvalidError(
                "another witness has the same key; each witness must have its own key"
            )
        if len(self._witnesses) >= MOST_WITNESSES:
            raise LogInvalidError(
                f"the policy has more than the permitted {MOST_WITNESSES} witnesses"
            )
        witness = Witness(name, key, url)
        self._define(name, witness)
        self._witnesses.append(witness)

    def _group(self, name: str, threshold: str, names: list[str]) -> None:
        if not re.fullmatch(_THRESHOLD, threshold):
            raise LogInvalidError("the threshold of a group must be a number, any, or all")
        needed = {"any": 1, "all": len(names)}.get(threshold) or int(threshold)
        if needed > len(names):
            raise LogInvalidError(
                "the threshold of a group is larger than the number of its members"
            )
        members = tuple(map(self._member, names))
        self._define(name, WitnessGroup(name, needed, members))

    def _member(self, name: str) -> WitnessGroup | Witness:
        """Return the witness or group ``name`` as a member of a new group.

        Raises ``LogInvalidError`` for an unknown name, and for a name that is a member already.
        """
        member = self._defined.get(name)
        if member is None or name in self._grouped:
            raise LogInvalidError(
                f"the member {name!a} must be defined above, and must be in no other group"
            )
        self._grouped.add(name)
        return member

    def _set_quorum(self, name: str) -> None:
        if self._quorum:
            raise LogInvalidError(
                "the policy has more than one quorum line; it must have exactly one"
            )
        if name not in self._defined:
            raise LogInvalidError(
                f"the quorum {name!a} must be the name of a witness or group above, or none"
            )
        self._quorum = name

    def _define(self, name: str, times_by_key: WitnessGroup | Witness) -> None:
        if name in self._defined:
            raise LogInvalidError(f"the name {name!a} is defined twice; each name must be unique")
        self._defined[name] = times_by_key


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False  # a name, whose address the host chooses
