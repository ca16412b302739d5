"""Forgeries that cannot result from a change of a random history: rare kinds, rare pins."""

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any, Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from msgspec.structs import replace

from keyhouse.attestation import TcbStatus
from keyhouse.transparency.keys import ED25519, VerifierKey
from keyhouse.transparency.note import SignedNote
from keyhouse.transparency.tree import Frontier
from keyhouse_simulation import QuoteParameters, TcbInfo
from keyhouse_simulation.attestation_file import write_expected_identity
from support.cosigner import Cosigner
from support.evidence import Maker
from support.forger.draft import Draft, cosigned
from support.forger.honest import Coordinator, manifest_like
from support.forger.rare import OLDER_CODE, RARE, Rare, begun, hide, packages_in_two_leaves
from support.samples.updates import together

__all__ = ["RARE_FORGERIES"]

_OTHER: Final = "0" * 64
_DAY: Final = timedelta(days=1)


def _changed(name: str, change: Callable[[Maker, Draft], Any]) -> Rare:
    """Return the rare true history ``name``, changed by ``change``."""

    def forge(maker: Maker, chance: Random) -> Draft:
        draft = RARE[name](maker, chance)
        change(maker, draft)
        return draft

    return forge


def _began(
    change: Callable[[Maker, Coordinator], Any], how: str = "new", raw: bytes = b"", **more: bool
) -> Rare:
    """Return a begun log, changed by ``change``."""

    def forge(maker: Maker, chance: Random) -> Draft:
        made = begun(maker, chance, how, raw, **more)
        change(maker, made)
        return made.draft

    return forge


def _trusting(files: Callable[[Maker, Coordinator], dict[str, bytes | None]]) -> Rare:
    return _began(lambda maker, made: made.draft.trusted.update(files(maker, made)))


def _pinned(change: Callable[[Draft], Any]) -> Rare:
    """Return a log, changed by ``change``, for an auditor who pins the first manifest."""

    def forge(_maker: Maker, made: Coordinator) -> None:
        pin = made.manifest.encode()
        made.draft.trusted |= {"root-fingerprint": None, "manifest-fingerprint": pin}
        made.anchor()
        change(made.draft)

    return _began(forge)


def _two_leaves(change: Callable[[Coordinator], Any]) -> Rare:
    def forge(maker: Maker, chance: Random) -> Draft:
        made = packages_in_two_leaves(maker, chance)
        change(made)
        return made.draft

    return forge


def _repeat(made: Coordinator) -> None:
    """Repeat the last leaf, which counts an approval again."""
    made.draft.said.append(made.draft.said[-1])


def _repeat_a_package(made: Coordinator) -> None:
    first, second = made.draft.said[-2:]
    second["versions"] = [*second["versions"], first["versions"][0]]


def _divide(made: Coordinator) -> None:
    """Insert an anchor between the leaves of a package update; the approval stays valid."""
    said = made.draft.said
    made.anchor()
    said[-2], said[-1] = said[-1], said[-2]
    said[-2]["time"] = said[-1]["time"]


def _divide_hidden(made: Coordinator) -> None:
    _divide(made)
    made.draft.changes.append(hide(len(made.draft.said) - 2))


def _update_with(text: str) -> Rare:
    """Return a package update with further content besides versions."""

    def forge(_maker: Maker, made: Coordinator) -> None:
        update = made.draft.add(text.encode())
        made.say(
            "packages-updated", **made.by("releaser"), base=made.manifest, _update=update,
            versions=[["app", "4"]], intermediate=made.intermediate,
        )  # fmt: skip

    return _began(forge)


def _approved(made: Coordinator, name: str, missing: int) -> None:
    new = made.draft.add(manifest_like("from before", 2))
    made.say("update-approved", **made.by(name), _base=made.manifest, manifest=new, missing=missing)


def _approved_after_packages(_maker: Maker, made: Coordinator) -> None:
    """Name an update from before the log, although an earlier package update excludes it."""
    made.raise_versions()
    _approved(made, "bob", 1)


def _numbers(*missing: int, names: str = "bob carol alice") -> Rare:
    """Return agreements from before the log, with these numbers of missing users."""

    def forge(_maker: Maker, made: Coordinator) -> None:
        for name, number in zip(names.split(), missing, strict=False):
            _approved(made, name, number)

    return _began(forge, "older", manifest_like("first", 3))


def _begin_with(**fields: object) -> Rare:
    """Return a log of an older version whose first entry has some fields of newer versions."""

    def forge(_maker: Maker, made: Coordinator) -> None:
        made.draft.said[0] |= fields

    return _began(forge, "older", is_old=True)


def _user_in_doubt(name: str) -> Rare:
    """Return an upload by a user whom no manifest in the file names."""

    def forge(_maker: Maker, made: Coordinator) -> None:
        made.say("secrets-uploaded", uploads=[[name, _OTHER, ["note"]]])

    return _began(forge, "older", is_old=True)


def _signed_otherwise(name: str, sign: Callable[[Any, bytes], bytes]) -> Rare:
    """Return a proposal by the user ``name``, signed with a different algorithm."""
    raw = together(updaters=[name], UpdateThreshold=1, Transparency={"SignedApprovals": True})

    def forge(_maker: Maker, made: Coordinator) -> None:
        by = {**made.by(name), "_sign": sign}
        base, made.raw = made.manifest, together(word="second")
        named = made.draft.add(made.raw)
        made.say(
            "update-proposed", **by, base=base, manifest=named, needed=1, public=True
        )  # fmt: skip
        made.take_effect("manifest-updated", base=base)

    return _began(forge, raw=raw)


def _pkcs1(key: RSAPrivateKey, message: bytes) -> bytes:
    return key.sign(message, padding.PKCS1v15(), hashes.SHA256())


def _salt(length: int) -> Callable[[RSAPrivateKey, bytes], bytes]:
    pss = padding.PSS(padding.MGF1(hashes.SHA256()), length)
    return lambda key, message: key.sign(message, pss, hashes.SHA256())


def _sha384(key: EllipticCurvePrivateKey, message: bytes) -> bytes:
    return key.sign(message, ec.ECDSA(hashes.SHA384()))


def _not_der(key: EllipticCurvePrivateKey, message: bytes) -> bytes:
    size = (key.key_size + 7) // 8
    r, s = decode_dss_signature(key.sign(message, ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(size, "big") + s.to_bytes(size, "big")


def _one_in_the_future(maker: Maker, draft: Draft, tree: Frontier) -> SignedNote:
    """Return a checkpoint with a second cosignature of a witness, a year in the future."""
    first = cosigned(maker, draft, tree, times=(timedelta(), timedelta()))
    later = cosigned(maker, draft, tree, times=(365 * _DAY,))
    return replace(first, signatures=(*first.signatures, later.signatures[1]))


def _note(note: Callable[[Maker, Draft, Frontier], SignedNote]) -> Rare:
    return _began(lambda _, made: setattr(made.draft, "note", note))


def _hardening_refused(maker: Maker, draft: Draft) -> None:
    expected = replace(
        maker.platform.expected_identity, accepted_tcb_statuses=(TcbStatus.UP_TO_DATE,)
    )
    draft.trusted["attestation.json"] = write_expected_identity(expected)


def _out_of_date(maker: Maker, draft: Draft) -> None:
    """Accept one TCB status for a machine with a different status."""
    _hardening_refused(maker, draft)
    status = TcbStatus.CONFIGURATION_NEEDED
    draft.head["parameters"] = QuoteParameters(tcb_info=TcbInfo(status=status))


def _head_of_older_code(maker: Maker, draft: Draft) -> None:
    del maker
    draft.head["code"] = OLDER_CODE


def _other_log() -> VerifierKey:
    return VerifierKey("log.example.org/other", ED25519, bytes(32))


def _stranger() -> VerifierKey:
    return Cosigner.ed25519("witness.example/x").verifier


def _only_begun(_maker: Maker, made: Coordinator) -> None:
    del made.draft.said[1:]


def _damaged_first(draft: Draft) -> None:
    draft.said[1]["_raw"] = lambda raw: raw.replace(b'"kind"', b' "kind"')


def _as_if_public(maker: Maker, draft: Draft) -> None:
    del maker
    draft.said[1]["public"] = True


def _extra_line(maker: Maker, draft: Draft, tree: Frontier) -> SignedNote:
    note = cosigned(maker, draft, tree)
    last = note.signatures[-1]
    return replace(note, signatures=(*note.signatures, replace(last, raw=last.raw[:-1])))


_UPDATE: Final = '{"Packages": {"app": {"SecurityVersion": 4%s}}%s}'
_KEYS_SIGN: Final[dict[str, tuple[str, Callable[[Any, bytes], bytes]]]] = {
    "RSA with PKCS #1 v1.5": ("rsa", _pkcs1),
    "RSA-PSS with a salt of 20 bytes": ("rsa", _salt(20)),
    "RSA-PSS with the longest salt": ("rsa", _salt(padding.PSS.MAX_LENGTH)),  # type: ignore[arg-type]
    "ECDSA with SHA-384": ("p-384", _sha384),
    "ECDSA that is not DER": ("p-384", _not_der),
    "ECDSA of P-521 that is not DER": ("p-521", _not_der),
    "Ed25519 of another message": ("ed25519", lambda key, message: key.sign(message + b"\0")),
    "Ed25519 with a byte more": ("ed25519", lambda key, message: key.sign(message) + b"\0"),
}

RARE_FORGERIES: Final[dict[str, Rare]] = {
    "a log without its first manifest": _began(_only_begun),
    "an intermediate without a manifest in force": _begin_with(intermediate=_OTHER),
    "publicity without a manifest in force": _begin_with(public=True),
    "a manifest in force without an intermediate": _began(
        lambda _, made: made.draft.said[0].pop("intermediate"), "older"
    ),
    "a package update that counts twice": _two_leaves(_repeat),
    "a package in two entries of an update": _two_leaves(_repeat_a_package),
    "a package update around another entry": _two_leaves(_divide),
    "a package update around a hidden entry": _two_leaves(_divide_hidden),
    "a package update with a product": _update_with(_UPDATE % (', "ProductID": 9', "")),
    "a package update with a configuration": _update_with(
        _UPDATE % ("", ', "Config": {"UpdateThreshold": 1}')
    ),
    "a package update with a package without a version": _update_with(
        '{"Packages": {"app": {"SecurityVersion": 4}, "web": {}}}'
    ),
    "a package update with a version of more than 64 bits": _update_with(
        '{"Packages": {"app": {"SecurityVersion": 4}, "web": {"SecurityVersion": %s}}}' % (2**64)
    ),
    "an update from before the log behind a package update": _began(
        _approved_after_packages, "older", manifest_like("first", 3)
    ),
    "two agreements at once before the log": _numbers(3, 1),
    "an agreement that counts twice before the log": _numbers(3, 2, 1, names="bob carol carol"),
    "more missing agreements than before": _numbers(1, 2),
    "a long name that is not a hash": _user_in_doubt("\u00e9" * 300),
    "a name like a hash": _user_in_doubt("sha256:alice"),
    "a name like a hash in capitals": _user_in_doubt(f"sha256:{'A' * 64}"),
    "collateral without a quote": _began(lambda _, made: made.start(quote="")),
    "lost collateral without a quote": _began(
        lambda _, made: made.start(quote="", collateral=_OTHER)
    ),
    "a quote without its object": _began(
        lambda _, made: made.start(quote=_OTHER, collateral="")
    ),
    "a manifest with a value as public": _changed(
        "a manifest with a value, which is not in the file", _as_if_public
    ),
    "a manifest without a value as not public": _began(
        lambda _, made: made.draft.said[1].update(public=False)
    ),
    "another pinned manifest": _trusting(
        lambda *_: {"root-fingerprint": None, "manifest-fingerprint": _OTHER.encode()}
    ),
    "another root beside a pinned manifest": _trusting(
        lambda _, made: {
            "root-fingerprint": _OTHER.encode(), "manifest-fingerprint": made.manifest.encode()
        }
    ),
    "a pinned manifest whose entry is hidden": _pinned(lambda draft: draft.changes.append(hide(1))),
    "a pinned manifest whose entry is damaged": _pinned(_damaged_first),
    "a pinned manifest of a later entry": _pinned(lambda draft: draft.said.pop(1)),
    "older code that nobody accepts": _changed(
        "older code that is accepted", lambda _, draft: draft.trusted.clear()
    ),
    "a head of older code": _changed("older code that is accepted", _head_of_older_code),
    "a policy that names another log": _trusting(
        lambda maker, _: {"witnesses.policy": f"log {_other_log()}\n{maker.policy}".encode()}
    ),
    "a file older than the maximum age": _trusting(lambda *_: {"max-age": b"60\n"}),
    "a file of the future": _began(
        lambda _, made: made.draft.trusted.update(
            {"witnesses.policy": None, "now": b"2026-11-22T12:30:00+00:00\n"}
        )
    ),
    "a cosignature of the future beside another": _note(_one_in_the_future),
    "a damaged second line of a witness": _note(_extra_line),
    "a group without enough members": _trusting(
        lambda maker, _: {
            "witnesses.policy": maker.policy.replace("Q 2 W0", "R 3 W0").replace(
                "quorum Q", f"witness X {_stranger()}\ngroup Q all R X\nquorum Q"
            ).encode()
        }
    ),
    "hardening that is not accepted": _changed(
        "a platform that needs software hardening", _hardening_refused
    ),
    "a configuration that is not accepted": _changed(
        "a platform that needs software hardening", _out_of_date
    ),
    "collateral that had expired at the claimed time, too": _changed(
        "starts that witnesses saw years later",
        lambda _, draft: draft.said[-1].update(time=int(draft.seen.timestamp()) * 1_000_000),
    ),
    **{
        f"an approval by {words}": _signed_otherwise(name, sign)
        for words, (name, sign) in _KEYS_SIGN.items()
    },
}  # fmt: skip
