"""Raised security versions: rights, effects, kept values, generated values."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from support.samples.deployment import (
    NOW,
    FixedClock,
    running_engine,
    set_manifest,
    stored,
    upload,
    user,
)

from keyhouse.base.errors import ForbiddenError, InvalidError, UnauthenticatedError
from keyhouse.coordinator import Engine, Running, SentUpdate, StaleError, View, prepare_update
from keyhouse.coordinator.core.policy import versions_in_force

DAY = 24 * 3600 * 1_000_000


def _manifest() -> bytes:
    signer = {"SignerID": "ab" * 32, "ProductID": 7, "SecurityVersion": 3}
    content: dict[str, Any] = {
        "Packages": {"app": signer, "other": signer, "fixed": {"UniqueID": "cd" * 32}},
        "Marbles": {"app": {"Package": "app"}},
        "Secrets": {
            "key": {"Type": "symmetric-key", "Size": 128, "Shared": True},
            "mine": {"Type": "plain", "UserDefined": True},
            "ninety": {
                "Type": "cert-ecdsa",
                "Size": 256,
                "Shared": True,
                "ValidFor": 90,
                "Cert": {"DNSNames": ["a.example"], "IPAddresses": ["10.0.0.7"]},
            },
            "until": {
                "Type": "cert-ed25519",
                "Shared": True,
                "Cert": {"NotAfter": "2027-02-01T00:00:00Z"},
            },
        },
        "Users": {
            name: {"Certificate": user(name).pem.decode(), "Roles": roles}
            for name, roles in {"updater": ["app"], "writer": ["write"]}.items()
        },
        "Roles": {
            "app": {
                "ResourceType": "Packages",
                "ResourceNames": ["app", "fixed"],
                "Actions": ["UpdateSecurityVersion"],
            },
            "write": {
                "ResourceType": "Secrets",
                "ResourceNames": ["mine"],
                "Actions": ["WriteSecret"],
            },
        },
    }
    return json.dumps(content).encode()


def _update(**packages: Any) -> bytes:
    return json.dumps({"Packages": packages}).encode()


async def _apply(engine: Engine, raw: bytes, by: str = "updater") -> View:
    prepared = prepare_update(
        engine.view.running, SentUpdate(user(by).der, raw), now=engine.current.now()
    )
    return await engine.submit(prepared)


def _check_reissued(before: Running, after: Running, name: str, *, days_longer: int) -> None:
    ca = x509.load_der_x509_certificate(after.keys.intermediate_cert)
    old = x509.load_der_x509_certificate(before.secrets[name].cert)
    new = x509.load_der_x509_certificate(after.secrets[name].cert)
    new.verify_directly_issued_by(ca)
    assert new.public_key() != old.public_key()
    assert new.subject == old.subject
    names = x509.SubjectAlternativeName
    assert new.extensions.get_extension_for_class(names) == (
        old.extensions.get_extension_for_class(names)
    )
    assert (new.not_valid_after_utc - old.not_valid_after_utc).days == days_longer


async def test_an_update_raises_versions_and_renews_what_the_old_ca_issued(
    tmp_path: Path,
) -> None:
    clock = FixedClock()
    async with running_engine(tmp_path / "data", clock) as engine:
        await set_manifest(engine, _manifest())
        await upload(engine, {"mine": b"hello"})
        before = engine.view.running
        clock.time = NOW + 10 * DAY
        await _apply(engine, _update(app={"SecurityVersion": 5}))
        after = engine.view.running
        lines = [json.loads(line) for line in engine.view.log.lines()]
    async with running_engine(tmp_path / "data", clock) as engine:
        assert engine.view.running.security_versions == after.security_versions
        assert engine.view.running.keys == after.keys
        assert stored(engine.view)["ninety"] == after.secrets["ninety"].private.reveal()
    assert versions_in_force(after) == {"app": 5, "other": 3, "fixed": None}
    assert after.keys.root_cert == before.keys.root_cert
    assert after.keys.root_secret == before.keys.root_secret
    assert after.keys.intermediate_cert != before.keys.intermediate_cert
    assert after.keys.marble_root_cert != before.keys.marble_root_cert
    assert (after.manifest, after.signature) == (before.manifest, before.signature)
    for name in ("key", "mine"):
        assert after.secrets[name] == before.secrets[name]
    for name, days_longer in (("ninety", 10), ("until", 0)):
        _check_reissued(before, after, name, days_longer=days_longer)
    assert lines[-1] == {
        "time": "2027-01-25T08:00:00.000Z",
        "update": "SecurityVersion increased",
        "user": "updater",
        "package": "app",
        "new version": 5,
    }
    assert list(lines[-1]) == ["time", "update", "user", "package", "new version"]


async def test_versions_never_go_down_also_not_in_steps(tmp_path: Path) -> None:
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, _manifest())
        await _apply(engine, _update(app={"SecurityVersion": 5}))
        await _apply(engine, _update(app={"SecurityVersion": 5}))  # equal is allowed
        with pytest.raises(InvalidError, match=r"Packages\.app\.SecurityVersion: .*4.*5"):
            await _apply(engine, _update(app={"SecurityVersion": 4}))


async def test_only_holders_of_the_right_on_every_package_may_update(tmp_path: Path) -> None:
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, _manifest())
        both = _update(app={"SecurityVersion": 9}, other={"SecurityVersion": 9})
        with pytest.raises(ForbiddenError, match='"other"'):
            await _apply(engine, both)
        with pytest.raises(ForbiddenError):
            await _apply(engine, _update(app={"SecurityVersion": 9}), by="writer")
        with pytest.raises(UnauthenticatedError):
            await _apply(engine, _update(app={"SecurityVersion": 9}), by="a stranger")
        good = prepare_update(
            engine.view.running,
            SentUpdate(user("updater").der, _update(app={"SecurityVersion": 9})),
            now=engine.current.now(),
        )
        stolen = msgspec.structs.replace(good, identity=user("writer").der)
        with pytest.raises(ForbiddenError):
            await engine.submit(stolen)
        assert not engine.view.running.security_versions


async def test_two_updates_prepared_at_once_do_not_overwrite_each_other(tmp_path: Path) -> None:
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, _manifest())
        state, der = engine.view.running, user("updater").der
        first = prepare_update(state, SentUpdate(der, _update(app={"SecurityVersion": 9})), now=NOW)
        second = prepare_update(
            state, SentUpdate(der, _update(app={"SecurityVersion": 8})), now=NOW
        )
        await engine.submit(first)
        with pytest.raises(StaleError):
            await engine.submit(second)
        assert versions_in_force(engine.view.running)["app"] == 9


async def test_an_ended_certificate_does_not_block_an_update(tmp_path: Path) -> None:
    clock = FixedClock()
    async with running_engine(tmp_path / "data", clock) as engine:
        await set_manifest(engine, _manifest())
        before = engine.view.running
        clock.time = NOW + 60 * DAY
        await _apply(engine, _update(app={"SecurityVersion": 5}))
        after = engine.view.running
    assert after.secrets["until"] == before.secrets["until"]
    assert after.secrets["ninety"] != before.secrets["ninety"]


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (_update(), "Packages: "),
        (_update(fixed={"SecurityVersion": 1}), r"Packages\.fixed\.SecurityVersion: .*UniqueID"),
        (_update(app={"SecurityVersion": 4, "ProductID": 7}), r"Packages\.app\.ProductID: "),
        (b"nonsense", "the manifest"),
    ],
)
async def test_what_is_no_package_update_is_refused(
    tmp_path: Path, raw: bytes, problem: str
) -> None:
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, _manifest())
        with pytest.raises(InvalidError, match=problem):
            await _apply(engine, raw)
