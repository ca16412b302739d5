"""Full updates: necessary agreements, and kept, renewed and removed values."""

import asyncio
import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from msgspec.structs import replace
from support.samples import updates
from support.samples.deployment import (
    NOW,
    FixedClock,
    crashing_engine,
    new_process,
    running_engine,
    set_manifest,
    stored,
    upload,
    user,
)
from support.samples.updates import Document, acknowledged, holder_key, holder_pem, initiated

from keyhouse.authority.recovery.shares import combine_xor
from keyhouse.base.errors import (
    BrokenError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnauthenticatedError,
)
from keyhouse.base.secret import Secret
from keyhouse.coordinator import (
    CancelUpdate,
    CannotBeAppliedError,
    Engine,
    SentUpdate,
    StaleError,
    UpdatePackages,
    View,
    prepare_acknowledgement,
    prepare_update,
)
from keyhouse.journal import Journal
from keyhouse.journal.store.sqlite import SqliteStore

DAY = 24 * 3600 * 1_000_000


def document(updaters: int = 3, threshold: int = 2, **config: Any) -> Document:
    """Return a manifest with updating users ``u0`` ..., of whom ``threshold`` must agree."""
    updating = [f"u{number}" for number in range(updaters)]
    content = updates.document(updating, ["rk0", "rk1"], UpdateThreshold=threshold, **config)
    content["Secrets"] |= {
        "derived": {"Type": "symmetric-key", "Size": 256},
        "cert": {"Type": "cert-ecdsa", "Size": 256, "Shared": True},
        "other": {"Type": "plain", "UserDefined": True},
    }
    content["Roles"]["write"]["ResourceNames"].append("other")
    return content


def _raw(change: Callable[[Document], object] = lambda _: None, **arguments: Any) -> bytes:
    content = document(**arguments)
    change(content)
    return json.dumps(content).encode()


def _argv(word: str) -> Callable[[Document], object]:
    """Return a change that only makes a manifest differ."""
    return lambda content: content["Marbles"]["app"].update({"Parameters": {"Argv": [word]}})


async def _initiate(engine: Engine, raw: bytes, by: str = "u0") -> View:
    return await initiated(engine, raw, by)


async def _update_alone(engine: Engine, raw: bytes) -> View:
    """Apply ``raw`` under a manifest that demands one user."""
    view = await _initiate(engine, raw)
    assert view.running.pending is None
    assert view.running.manifest == raw
    return view


def _log(engine: Engine) -> list[dict[str, Any]]:
    return [json.loads(line) for line in engine.view.log.lines()]


# --- agreement ---


async def test_two_of_three_agree_and_the_second_applies_it(tmp_path: Path) -> None:
    new = _raw(_argv("new"))
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, _raw())
        first = (await _initiate(engine, new)).running
        assert first.pending is not None
        assert (first.pending.missing, first.pending.missing_users) == (1, ("u1", "u2"))
        assert first.manifest == _raw()
        after = (await acknowledged(engine, new, "u2")).running
        assert after.pending is None
        assert after.manifest == new
        fingerprint = _log(engine)[-1]["manifestFingerprint"]
        entries = _log(engine)[1:]
        for entry in entries:
            del entry["time"]
        assert entries == [
            {
                "update": "Manifest update initiated",
                "user": "u0",
                "missingAcknowledgments": 1,
                "missingUsers": ["u1", "u2"],
                "manifestFingerprint": fingerprint,
            },
            {
                "update": "Manifest update acknowledged",
                "user": "u2",
                "missingAcknowledgments": 0,
                "missingUsers": ["u1"],
                "manifestFingerprint": fingerprint,
            },
            {"update": "Manifest updated", "manifestFingerprint": fingerprint},
        ]
        log = engine.view.log.lines()
    async with running_engine(tmp_path / "data") as engine:
        assert engine.view.running.manifest == new
        assert engine.view.log.lines() == log


async def test_a_pending_update_survives_a_crash_and_can_be_completed(tmp_path: Path) -> None:
    new = _raw(_argv("new"))
    async with crashing_engine(tmp_path / "data") as engine:
        await set_manifest(engine, _raw())
        await _initiate(engine, new)
    async with running_engine(tmp_path / "data") as engine:
        assert engine.view.running.pending is not None
        await acknowledged(engine, new, "u1")
        assert engine.view.running.manifest == new


async def test_without_a_threshold_all_have_to_agree(tmp_path: Path) -> None:
    new = _raw(_argv("new"), threshold=0)
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, _raw(threshold=0))
        await _initiate(engine, new)
        state = (await acknowledged(engine, new, "u1")).running
        assert state.pending is not None
        assert state.pending.missing_users == ("u2",)
        assert (await acknowledged(engine, new, "u2")).running.manifest == new


async def test_acknowledging_again_changes_nothing_and_is_logged(tmp_path: Path) -> None:
    new = _raw(_argv("new"), threshold=0)
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, _raw(threshold=0))
        await _initiate(engine, new)
        state = (await acknowledged(engine, new, "u0")).running
        assert state.pending is not None
        assert state.pending.missing == 2
        assert _log(engine)[-1]["update"] == "Manifest update acknowledged"


async def test_the_threshold_is_that_of_the_current_manifest(tmp_path: Path) -> None:
    new = _raw(updaters=1, threshold=0)
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, _raw())
        assert (await _initiate(engine, new)).running.pending is not None


@pytest.mark.parametrize("by", ["writer", "releaser"])
async def test_only_holders_of_the_right_initiate_acknowledge_and_cancel(
    tmp_path: Path, by: str
) -> None:
    new = _raw(_argv("new"))
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, _raw())
        with pytest.raises(ForbiddenError):
            await _initiate(engine, new, by)
        with pytest.raises(UnauthenticatedError):
            await _initiate(engine, new, "a stranger")
        good = prepare_update(engine.view.running, SentUpdate(user("u0").der, new), now=NOW)
        with pytest.raises(ForbiddenError):
            await engine.submit(msgspec.structs.replace(good, identity=user(by).der))
        await _initiate(engine, new)
        with pytest.raises(ForbiddenError):
            await acknowledged(engine, new, by)
        ready = prepare_acknowledgement(
            engine.view.running, SentUpdate(user("u1").der, new), now=NOW
        )
        with pytest.raises(ForbiddenError):
            await engine.submit(msgspec.structs.replace(ready, identity=user(by).der))
        with pytest.raises(ForbiddenError):
            await engine.submit(CancelUpdate(identity=user(by).der, manifest=None))
        assert engine.view.running.manifest == _raw()


async def test_other_bytes_are_no_acknowledgement(tmp_path: Path) -> None:
    new = _raw(_argv("new"))
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, _raw())
        await _initiate(engine, new)
        with pytest.raises(ConflictError, match=hashlib.sha256(new).hexdigest()):
            await acknowledged(engine, new + b" ", "u1")
        assert engine.view.running.pending is not None


async def test_nothing_is_acknowledged_or_cancelled_where_nothing_is_pending(
    tmp_path: Path,
) -> None:
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, _raw())
        with pytest.raises(NotFoundError):
            await acknowledged(engine, _raw(_argv("new")), "u1")
        with pytest.raises(NotFoundError):
            await engine.submit(CancelUpdate(identity=user("u1").der, manifest=None))


async def test_while_one_is_pending_no_other_update_is_taken(tmp_path: Path) -> None:
    package = json.dumps({"Packages": {"app": {"SecurityVersion": 9}}}).encode()
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, _raw())
        state = engine.view.running
        early = prepare_update(state, SentUpdate(user("releaser").der, package), now=NOW)
        late = prepare_update(state, SentUpdate(user("u1").der, _raw(_argv("late"))), now=NOW)
        await _initiate(engine, _raw(_argv("new")))
        with pytest.raises(ConflictError):
            await _initiate(engine, _raw(_argv("other")), "u1")
        with pytest.raises(ConflictError):
            await _initiate(engine, package, "releaser")
        for prepared_before in (early, late):
            with pytest.raises(ConflictError):
                await engine.submit(prepared_before)
        await engine.submit(CancelUpdate(identity=user("u2").der, manifest=None))
        assert _log(engine)[-1]["user"] == "u2"
        await _initiate(engine, package, "releaser")


async def test_of_two_simultaneous_initiations_one_wins(tmp_path: Path) -> None:
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, _raw())
        outcomes = await asyncio.gather(
            _initiate(engine, _raw(_argv("a")), "u0"),
            _initiate(engine, _raw(_argv("b")), "u1"),
            return_exceptions=True,
        )
        assert isinstance(outcomes[1], ConflictError)
        pending = engine.view.running.pending
        assert pending is not None
        assert pending.manifest == _raw(_argv("a"))


async def test_an_application_prepared_for_another_state_is_stale(tmp_path: Path) -> None:
    package = json.dumps({"Packages": {"app": {"SecurityVersion": 9}}}).encode()
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, _raw(updaters=1, threshold=0))
        old = prepare_update(
            engine.view.running, SentUpdate(user("u0").der, _raw(updaters=1, threshold=1)), now=NOW
        )
        raised = prepare_update(
            engine.view.running, SentUpdate(user("releaser").der, package), now=NOW
        )
        assert isinstance(raised, UpdatePackages)
        await engine.submit(raised)
        with pytest.raises(StaleError):
            await engine.submit(old)


async def test_decide_alone_applies_nothing_without_an_application(tmp_path: Path) -> None:
    new = _raw(_argv("new"))
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, _raw())
        await _initiate(engine, new)
        ready = prepare_acknowledgement(
            engine.view.running, SentUpdate(user("u1").der, new), now=NOW
        )
        with pytest.raises(StaleError):
            await engine.submit(msgspec.structs.replace(ready, application=None))
        assert engine.view.running.manifest == _raw()


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_setting_keeps_a_removed_user_from_cancelling_the_update(
    tmp_path: Path, *, allowed: bool
) -> None:
    def remove(content: Document) -> None:
        del content["Users"]["u2"]

    process = replace(new_process(), removed_may_cancel=allowed)
    async with running_engine(tmp_path / "data", process=process) as engine:
        await set_manifest(engine, _raw())
        await _initiate(engine, _raw(remove))
        cancel = CancelUpdate(identity=user("u2").der, manifest=None)
        if allowed:
            assert (await engine.submit(cancel)).running.pending is None
            return
        with pytest.raises(ForbiddenError, match="--no-cancel-by-removed"):
            await engine.submit(cancel)
        stays = CancelUpdate(identity=user("u1").der, manifest=None)
        assert (await engine.submit(stays)).running.pending is None


# --- what an update keeps and renews ---


async def test_values_are_kept_renewed_and_dropped_as_the_table_says(tmp_path: Path) -> None:
    def first(content: Document) -> None:
        for name in ("resized", "gone"):
            content["Secrets"][name] = {"Type": "symmetric-key", "Size": 128, "Shared": True}

    def second(content: Document) -> None:
        secrets = content["Secrets"]
        secrets["resized"] = {"Type": "symmetric-key", "Size": 512, "Shared": True}
        secrets["added"] = {"Type": "symmetric-key", "Size": 128, "Shared": True}
        secrets["cert"]["Cert"] = {"DNSNames": ["renamed.example"]}

    clock = FixedClock()
    async with running_engine(tmp_path / "data", clock) as engine:
        await set_manifest(engine, _raw(first, updaters=1, threshold=0))
        await upload(engine, {"note": b"kept"})
        before = engine.view.running
        clock.time = NOW + DAY
        await _update_alone(engine, _raw(second, updaters=1, threshold=0))
        after = engine.view.running
    async with running_engine(tmp_path / "data", clock) as engine:
        assert stored(engine.view) == {
            name: value.private.reveal() for name, value in after.secrets.items()
        }
        assert engine.view.running.previous == after.previous
    assert after.keys.root_cert == before.keys.root_cert
    assert after.keys.root_secret == before.keys.root_secret
    assert after.keys.intermediate_cert != before.keys.intermediate_cert
    assert after.recovery == before.recovery
    for name in ("shared", "note"):
        assert after.secrets[name] == before.secrets[name]
    assert after.previous["shared"] == before.previous["shared"]
    assert len(after.secrets["resized"].private) == 64
    assert after.previous["resized"] == after.secrets["resized"]
    assert after.previous["added"] == after.secrets["added"]
    assert "gone" not in after.secrets
    assert "gone" not in after.previous
    assert after.previous["cert"] == before.secrets["cert"]
    renewed = x509.load_der_x509_certificate(after.secrets["cert"].cert)
    renewed.verify_directly_issued_by(x509.load_der_x509_certificate(after.keys.intermediate_cert))
    names = renewed.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert names.value.get_values_for_type(x509.DNSName) == ["renamed.example"]
    assert after.previous_sizes["derived"] == 256


async def test_a_changed_definition_empties_an_uploaded_secret(tmp_path: Path) -> None:
    def change(content: Document) -> None:
        content["Secrets"]["note"] = {"Type": "symmetric-key", "Size": 128, "UserDefined": True}

    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, _raw(updaters=1, threshold=0))
        await upload(engine, {"note": b"dropped", "other": b"kept"})
        await _update_alone(engine, _raw(change, updaters=1, threshold=0))
        assert "note" not in stored(engine.view)
        assert stored(engine.view)["other"] == b"kept"


def _gives(value: bytes) -> Callable[[Document], object]:
    """Return a change that gives secrets a value in the manifest."""
    given = {"Type": "plain", "UserDefined": True, "Private": base64.b64encode(value).decode()}
    return lambda content: content["Secrets"].update(note=given, other=given, new=given)


async def test_a_value_given_for_a_secret_that_stays_is_not_taken_and_the_log_says_so(
    tmp_path: Path,
) -> None:
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, _raw(updaters=1, threshold=0))
        await upload(engine, {"note": b"uploaded"})
        await _update_alone(engine, _raw(_gives(b"first"), updaters=1, threshold=0))
        values = stored(engine.view)
        assert (values["note"], values["new"]) == (b"uploaded", b"first")
        assert "other" not in values
        assert _log(engine)[-1]["update"] == (
            'Manifest updated; it does not take the values that the manifest gives for "note",'
            ' "other": a secret that stays keeps what it has, upload the new value'
        )
        await _update_alone(engine, _raw(_gives(b"first"), updaters=1, threshold=0))
        assert _log(engine)[-1]["update"] == "Manifest updated"  # the manifest gives nothing new
        await _update_alone(engine, _raw(_gives(b"second"), updaters=1, threshold=0))
        assert '"new"' in _log(engine)[-1]["update"]
        assert stored(engine.view)["new"] == b"first"


async def test_rotation_makes_the_old_root_secret_and_keys_the_previous_ones(
    tmp_path: Path,
) -> None:
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, _raw(updaters=1, threshold=0))
        await upload(engine, {"note": b"kept"})
        before = engine.view.running
        await _update_alone(engine, _raw(updaters=1, threshold=0, RotateRootSecret=True))
        after = engine.view.running
    assert after.keys.root_secret != before.keys.root_secret
    assert after.previous_root_secret == before.keys.root_secret
    assert after.secrets["shared"] != before.secrets["shared"]
    assert after.previous["shared"] == before.secrets["shared"]
    assert after.secrets["note"] == before.secrets["note"]
    assert after.keys.root_cert == before.keys.root_cert


async def test_an_update_begins_an_epoch_in_which_nothing_old_is_left_on_disk(
    tmp_path: Path,
) -> None:
    data, marker = tmp_path / "data", b"overwritten by the update" * 3

    async with running_engine(data) as engine:
        await set_manifest(engine, _raw(updaters=1, threshold=0))
        await upload(engine, {"note": marker})
        epoch = engine.view.position
        await _update_alone(engine, _raw(_argv("new"), updaters=1, threshold=0))
        later = engine.view.position
        assert epoch is not None
        assert later is not None
        assert later.epoch == epoch.epoch + 1
        assert stored(engine.view)["note"] == marker


# --- recovery keys ---


async def _shares_open(engine: Engine, data: Path, names: list[str]) -> bool:
    """Return whether the shares of ``names`` open the journal on the disk."""
    scheme = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)
    shares = [
        Secret(holder_key(holder.name).decrypt(holder.ciphertext, scheme))
        for holder in engine.view.running.recovery.holders
        if holder.name in names
    ]
    return await _opens(data, combine_xor(shares))


async def _opens(data: Path, dek: Secret) -> bool:
    """Return whether ``dek`` opens a copy of the journal."""
    copy = data.with_name(f"copy-{base64.b16encode(dek.reveal()[:6]).decode()}.db")
    copy.write_bytes((data / "journal.db").read_bytes())
    copy.chmod(0o600)
    store = await SqliteStore.open(copy)
    start = (await store.read(0)).start
    assert start is not None
    try:
        await Journal.open(store, store_id=start.store_id, dek=dek)
    except BrokenError:
        return False
    finally:
        await store.close()
    return True


async def test_changed_recovery_keys_begin_an_epoch_that_old_shares_do_not_open(
    tmp_path: Path,
) -> None:
    def change(content: Document) -> None:
        content["RecoveryKeys"] = {"rk1": holder_pem("rk1"), "rk2": holder_pem("rk2")}

    scheme = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)
    data = tmp_path / "data"
    async with running_engine(data) as engine:
        await set_manifest(engine, _raw(updaters=1, threshold=0))
        old = combine_xor(
            [
                Secret(holder_key(holder.name).decrypt(holder.ciphertext, scheme))
                for holder in engine.view.running.recovery.holders
            ]
        )
        prepared = prepare_update(
            engine.view.running,
            SentUpdate(user("u0").der, _raw(change, updaters=1, threshold=0)),
            now=NOW,
        )
        assert not isinstance(prepared, UpdatePackages)
        assert prepared.application is not None
        assert prepared.application.dek is not None
        await engine.submit(prepared)
        new = engine.view.running.recovery
    assert [holder.name for holder in new.holders] == ["rk1", "rk2"]
    assert not await _opens(data, old)
    async with running_engine(data) as engine:
        assert engine.view.running.recovery == new
    async with running_engine(data) as engine:
        pass
    assert await _shares_open(engine, data, ["rk1", "rk2"])


@pytest.mark.parametrize("threshold", [0, 2], ids=["as it was", "the same said in numbers"])
async def test_the_same_recovery_terms_leave_the_shares_good(
    tmp_path: Path, threshold: int
) -> None:
    data = tmp_path / "data"
    async with running_engine(data) as engine:
        await set_manifest(engine, _raw(updaters=1, threshold=0))
        before = engine.view.running.recovery
        raw = _raw(_argv("new"), updaters=1, threshold=0, RecoveryThreshold=threshold)
        await _update_alone(engine, raw)
        assert engine.view.running.recovery == before
    assert await _shares_open(engine, data, ["rk0", "rk1"])


# --- problems ---


async def test_problems_are_found_when_an_update_is_initiated(tmp_path: Path) -> None:
    def change(content: Document) -> None:
        content["Marbles"]["app"]["Package"] = "missing"
        content["Secrets"]["cert"]["Cert"] = {"Subject": {"CommonName": "x" * 65}}

    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, _raw())
        with pytest.raises(InvalidError) as refusal:
            await _initiate(engine, _raw(change))
        assert [problem.at for problem in refusal.value.problems] == [
            "Marbles.app.Package",
            "Secrets.cert.Cert.Subject.CommonName",
        ]
        assert engine.view.running.pending is None


def _reads_note(content: Document) -> None:
    env = {"NOTE": "{{ string .Secrets.note }}"}
    content["Marbles"]["app"]["Parameters"] = {"Env": env}


async def test_an_uploaded_value_that_new_templates_cannot_take_refuses_the_update(
    tmp_path: Path,
) -> None:
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, _raw())
        await upload(engine, {"note": b"zero \0 byte"})
        with pytest.raises(InvalidError, match="zero byte"):
            await _initiate(engine, _raw(_reads_note))


async def test_an_upload_that_the_pending_manifest_cannot_take_is_refused(
    tmp_path: Path,
) -> None:
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, _raw())
        await _initiate(engine, _raw(_reads_note))
        with pytest.raises(InvalidError, match="pending update"):
            await upload(engine, {"note": b"zero \0 byte"})
        await upload(engine, {"note": b"fine"})
        await acknowledged(engine, _raw(_reads_note), "u1")
        assert stored(engine.view)["note"] == b"fine"


async def test_an_upload_checked_before_an_update_was_initiated_is_checked_again(
    tmp_path: Path,
) -> None:
    from keyhouse.coordinator import prepare_upload
    from keyhouse.wire.secret_types import UserSecret

    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, _raw())
        bad = {"note": UserSecret(key=Secret(b"zero \0 byte"))}
        prepared = prepare_upload(engine.view.running, user("writer").der, bad)
        await _initiate(engine, _raw(_reads_note))
        with pytest.raises(StaleError):
            await engine.submit(prepared)


async def test_an_agreed_update_whose_time_has_passed_cannot_be_applied(tmp_path: Path) -> None:
    def change(content: Document) -> None:
        content["Secrets"]["cert"]["Cert"] = {"NotAfter": "2027-02-01T00:00:00Z"}

    clock = FixedClock()
    async with running_engine(tmp_path / "data", clock) as engine:
        await set_manifest(engine, _raw())
        await _initiate(engine, _raw(change))
        clock.time = NOW + 60 * DAY
        with pytest.raises(CannotBeAppliedError):
            await acknowledged(engine, _raw(change), "u1")
        await engine.submit(CancelUpdate(identity=None, manifest=_raw(change)))
        assert _log(engine)[-1]["update"].endswith("because it could not be applied")
        assert engine.view.running.manifest == _raw()


async def test_what_users_should_know_is_in_the_log(tmp_path: Path) -> None:
    package = json.dumps({"Packages": {"app": {"SecurityVersion": 9}}}).encode()

    def change(content: Document) -> None:
        del content["RecoveryKeys"]
        content["Users"]["u0"]["Roles"] = []

    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, _raw(updaters=1, threshold=0))
        await _initiate(engine, package, "releaser")
        await _update_alone(engine, _raw(change, updaters=1, threshold=0))
        assert _log(engine)[-1]["update"] == (
            "Manifest updated; it lowers SecurityVersion of app from 9 to 3; "
            "it removes all recovery keys: a lost state cannot be recovered; "
            "it leaves no user who may update the manifest: it is final"
        )
        assert not engine.view.running.security_versions


async def test_another_seal_mode_takes_effect_with_the_update(tmp_path: Path) -> None:
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, _raw(updaters=1, threshold=0))
        await _update_alone(engine, _raw(updaters=1, threshold=0, SealMode="UniqueKey"))
    assert b"UniqueKey" in (tmp_path / "data" / "sealed_key").read_bytes()
    async with running_engine(tmp_path / "data") as engine:
        assert json.loads(engine.view.running.manifest)["Config"]["SealMode"] == "UniqueKey"


async def test_updates_work_without_a_disk(tmp_path: Path) -> None:
    async with running_engine(tmp_path / "data") as engine:
        await set_manifest(engine, _raw(updaters=1, threshold=0, SealMode="Disabled"))
        await _update_alone(engine, _raw(_argv("x"), updaters=1, threshold=0, SealMode="Disabled"))
        assert len(_log(engine)) == 3
