"""Workloads that run renew their certificates and read their present parameters."""

import asyncio
import shutil
import uuid
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from support.living.renewal import LIVING, Living, Workload, enclave, living, living_manifest
from support.samples.activation import TLS_CERT, Deployment, marble_manifest, platform
from support.samples.deployment import NOW, FixedClock, moment, user
from support.samples.machines import SETTINGS, platform as machine, vouched
from support.samples.replicas import STORE_ID, begin, engine_on
from support.samples.signing_request import signing_request
from support.samples.simulated_store import Database, SimulatedStore
from support.samples.simulated_time import in_simulated_time, until_idle

from keyhouse.attestation import quote_binding, report_data
from keyhouse.attestation.quote.binding import renewal_report_data
from keyhouse.authority import (
    MarbleLeaf,
    certify_marble,
    read_marble_certificate,
    read_signing_request,
)
from keyhouse.base.errors import (
    ConflictError,
    ForbiddenError,
    KeyhouseError,
    NotFoundError,
    UnavailableError,
)
from keyhouse.coordinator import (
    InitiateUpdate,
    ReadGate,
    SentUpdate,
    UpdatePackages,
    prepare_plan,
    prepare_update,
)
from keyhouse.coordinator.core.commands import RevokeWorkloads
from keyhouse.coordinator.core.events import LIVING_LEVEL, Scope
from keyhouse.coordinator.core.lineages import (
    GRACE,
    ActivateAgainError,
    LineageSupersededError,
    NotEnabledError,
    RenewFirstError,
    RevokedError,
)
from keyhouse.coordinator.hand_off.notes import Membership
from keyhouse.journal.store.protocol import Note
from keyhouse.server.services.feature_gates import identify_marble
from keyhouse.server.services.renewal_checks import require_reader
from keyhouse.server.services.renewals import A_MINUTE, NonceError, RenewalRequest, Session
from keyhouse.wire.lineage import LineageFacts

HOUR = 3600 * 1_000_000


async def update(deployed: Living, raw: bytes) -> None:
    """Apply the update ``raw`` of the only administrator."""
    sent = SentUpdate(user("admin").der, raw)
    command = prepare_update(deployed.engine.view.running, sent, now=deployed.engine.current.now())
    assert isinstance(command, InitiateUpdate | UpdatePackages)
    await deployed.engine.submit(command)


async def revoke(
    deployed: Living, scope: Scope, marble_type: str = "", name: str = "", platform: bytes = b""
) -> None:
    """Revoke as ``admin``."""
    await deployed.engine.submit(
        RevokeWorkloads(user("admin").der, scope, marble_type, name, platform, "test")
    )


async def code_of(workload: Workload, deployed: Living) -> tuple[str, str]:
    """Return the codes of the refusals of a renewal and of a fetch; empty: allowed."""
    codes = []
    for call in (workload.fetch(deployed.renewals), workload.renew(deployed.renewals, keep=False)):
        try:
            await call
        except KeyhouseError as refused:
            codes.append(refused.code)
        else:
            codes.append("")
    return codes[1], codes[0]


async def test_a_renewed_workload_reads_its_parameters(tmp_path: Path) -> None:
    async with living(tmp_path) as deployed:
        workload = await deployed.activate()
        given = await workload.renew()
        keys = deployed.engine.view.running.keys
        read = read_marble_certificate(given.chain[0], keys.marble_root_cert)
        assert read is not None
        assert (read.marble_type, read.uuid) == ("web", workload.marble)
        assert read.lineage is not None
        assert (read.lineage.kind, read.lineage.tcb_status) == ("sgx", "UpToDate")
        assert given.end - given.now == HOUR
        assert HOUR * 4 // 10 <= given.renew_at - given.now <= HOUR // 2
        assert given.chain[1] == keys.intermediate_cert
        served = await workload.fetch()
        assert list(served.present.files) == ["/token"]
        assert served.present.argv == ("web",)
        assert list(served.present.env) == ["CHAIN"]
        assert "MARBLE_PREDEFINED_PRIVATE_KEY" in served.present.predefined


async def test_a_renewal_does_not_count_as_an_activation(tmp_path: Path) -> None:
    raw = living_manifest().replace(b'"Renewal": {}', b'"Renewal": {}, "MaxActivations": 1')
    async with living(tmp_path, raw) as deployed:
        workload = await deployed.activate()
        for _ in range(3):
            await workload.renew()
        assert deployed.engine.view.running.activations["web"] == 1
        with pytest.raises(ForbiddenError, match="MaxActivations"):
            await deployed.activate()


async def test_a_type_without_renewal_is_not_enabled(tmp_path: Path) -> None:
    async with living(tmp_path, marble_manifest()) as deployed:
        workload = await deployed.activate()
        read = read_marble_certificate(
            workload.certificate, deployed.engine.view.running.keys.marble_root_cert
        )
        assert read is not None
        assert read.lineage is None
        assert not deployed.engine.view.running.lineages
        with pytest.raises(ActivateAgainError):
            await workload.renew()


async def test_renewal_removed_by_an_update_is_not_enabled(tmp_path: Path) -> None:
    async with living(tmp_path) as deployed:
        workload = await deployed.activate()
        await workload.renew()
        await update(deployed, LIVING.replace(b'"Renewal": {}, ', b""))
        with pytest.raises(NotEnabledError):
            await workload.renew()


async def test_a_lost_answer_can_be_requested_again(tmp_path: Path) -> None:
    async with living(tmp_path) as deployed:
        workload = await deployed.activate()
        await workload.renew(keep=False)
        first = workload.certificate
        await workload.renew()
        assert workload.certificate != first
        await workload.fetch()


async def test_state_survives_a_restart(tmp_path: Path) -> None:
    async with living(tmp_path) as deployed:
        workload = await deployed.activate()
        await workload.renew()
        lineages = deployed.engine.view.running.lineages
    async with living(tmp_path, None) as deployed:
        assert deployed.engine.view.running.lineages == lineages
        await workload.fetch(deployed.renewals)
        await update(deployed, LIVING)  # a new epoch: the base holds the lineages
        assert deployed.engine.view.running.lineages == lineages
    async with living(tmp_path, None) as deployed:
        assert deployed.engine.view.running.lineages == lineages


# The evidence of a renewal.


async def test_the_nonce_serves_once_and_on_its_connection_only(tmp_path: Path) -> None:
    clock = FixedClock()
    async with living(tmp_path, clock=clock) as deployed:
        workload = await deployed.activate()
        renewals, other = deployed.renewals, Session()
        nonce = await renewals.challenge(workload.certificate, workload.session)
        request = RenewalRequest(nonce, signing_request(key=workload.key), b"")
        with pytest.raises(NonceError):
            await renewals.renew(request, workload.certificate, other)
        with pytest.raises(ForbiddenError, match="no quote"):
            await renewals.renew(request, workload.certificate, workload.session)
        with pytest.raises(NonceError):  # spent, although the renewal failed
            await renewals.renew(request, workload.certificate, workload.session)
        nonce = await renewals.challenge(workload.certificate, workload.session)
        clock.let_pass(61_000_000)
        late = RenewalRequest(nonce, request.csr, b"")
        with pytest.raises(NonceError):
            await renewals.renew(late, workload.certificate, workload.session)


@pytest.mark.parametrize("bent", ["request", "nonce", "certificate", "activation", "half"])
async def test_other_evidence_is_refused(tmp_path: Path, bent: str) -> None:
    async with living(tmp_path) as deployed:
        workload = await deployed.activate()
        csr = signing_request(key=workload.key)
        nonce = await deployed.renewals.challenge(workload.certificate, workload.session)
        foreign = signing_request(key=ec.generate_private_key(ec.SECP256R1()))
        bound = {
            "request": renewal_report_data(foreign, nonce, workload.certificate),
            "nonce": renewal_report_data(csr, bytes(32), workload.certificate),
            "certificate": renewal_report_data(csr, nonce, TLS_CERT),
            "activation": report_data(quote_binding(TLS_CERT)),
            "half": report_data(quote_binding(csr)),
        }[bent]
        evidence = platform().workload_quote(enclave(), bound)
        with pytest.raises(ForbiddenError):
            await deployed.renewals.renew(
                RenewalRequest(nonce, csr, evidence), workload.certificate, workload.session
            )


async def test_a_renewal_needs_the_rules_in_force(tmp_path: Path) -> None:
    async with living(tmp_path) as deployed:
        workload = await deployed.activate()
        await workload.renew()
        await update(deployed, b'{"Packages": {"app": {"SecurityVersion": 3}}}')
        with pytest.raises(ForbiddenError, match="SecurityVersion"):
            await workload.renew(isvsvn=2)
        await workload.renew(isvsvn=3)


# The attacks of the review: C1, C2, H1, H5, H6.


async def test_after_an_update_a_certificate_reads_nothing_until_its_renewal(
    tmp_path: Path,
) -> None:
    """C1, H5: each update makes a fresh marble root, and a renewal under it does not count."""
    async with living(tmp_path) as deployed:
        workload = await deployed.activate()
        await workload.renew()
        for _ in range(5):
            before = deployed.engine.view.running.keys.marble_root_cert
            await update(deployed, LIVING)
            assert deployed.engine.view.running.keys.marble_root_cert != before
            with pytest.raises(RenewFirstError):
                await workload.fetch()
            given = await workload.renew()
            assert given.settle_seconds > 0
            await workload.fetch()


async def test_an_update_in_an_old_copy_makes_another_root(tmp_path: Path) -> None:
    """C1: a certificate of the copy reads nothing from the live deployment."""
    live, copy = tmp_path / "live", tmp_path / "copy"
    async with living(live) as deployed:
        await deployed.activate()
    shutil.copytree(live, copy)
    async with living(live, None) as deployed, living(copy, None) as fork:
        await update(deployed, LIVING)
        await update(fork, LIVING)
        thief = await fork.activate()
        await thief.renew()
        assert await code_of(thief, deployed) == ("activate-again", "activate-again")


async def test_an_activation_in_an_old_copy_reads_nothing(tmp_path: Path) -> None:
    """C2 (a): the root is in force in both, but the live state does not know the lineage."""
    live, copy = tmp_path / "live", tmp_path / "copy"
    async with living(live):
        pass
    shutil.copytree(live, copy)
    async with living(live, None) as deployed, living(copy, None) as fork:
        thief = await fork.activate()
        await thief.renew()
        roots = {each.engine.view.running.keys.marble_root_cert for each in (deployed, fork)}
        assert len(roots) == 1
        assert await code_of(thief, deployed) == ("activate-again", "activate-again")


async def test_a_renewal_in_an_old_copy_reads_nothing(tmp_path: Path) -> None:
    """C2 (a): the lineage is known, but its key is not the newest of the live state."""
    live, copy = tmp_path / "live", tmp_path / "copy"
    async with living(live) as deployed:
        workload = await deployed.activate()
        await workload.renew()
    shutil.copytree(live, copy)
    async with living(live, None) as deployed, living(copy, None) as fork:
        thief = workload.copy()
        await thief.renew(fork.renewals)
        assert await code_of(thief, deployed) == ("superseded", "superseded")
        await workload.fetch(deployed.renewals)


async def test_a_stolen_key_ends_with_the_next_renewal(tmp_path: Path) -> None:
    """C2 (b): the thief without a TEE fetches until then, and cannot renew."""
    async with living(tmp_path) as deployed:
        workload = await deployed.activate()
        await workload.renew()
        thief = workload.copy()
        await thief.fetch()
        with pytest.raises(ForbiddenError):
            await thief.renew(isvsvn=1)  # an enclave that the package does not admit
        await workload.renew()
        with pytest.raises(LineageSupersededError):
            await thief.fetch()


async def test_two_copies_never_both_continue(tmp_path: Path) -> None:
    """C2 (b): a thief with a TEE renews first, and the workload itself notices."""
    async with living(tmp_path) as deployed:
        workload = await deployed.activate()
        await workload.renew()
        thief = workload.copy()
        await thief.renew()
        assert await code_of(workload, deployed) == ("superseded", "superseded")


async def test_of_two_renewals_at_once_only_one_happens(tmp_path: Path) -> None:
    """C2 (b): both calls pass the first checks, and the decision judges the lineage again."""
    async with living(tmp_path) as deployed:
        workload = await deployed.activate()
        await workload.renew()
        thief = workload.copy()
        results = await asyncio.gather(workload.renew(), thief.renew(), return_exceptions=True)
        refused = [each for each in results if isinstance(each, BaseException)]
        assert len(refused) == 1
        assert isinstance(refused[0], LineageSupersededError)


async def test_a_certificate_for_the_newest_key_names_the_workload_of_its_lineage(
    tmp_path: Path,
) -> None:
    """Only a coordinator signs such a certificate; this check is the last of several."""
    async with living(tmp_path) as deployed:
        workload = await deployed.activate()
        await workload.renew()
        state, now = deployed.engine.view.running, deployed.engine.current.now()
        public = x509.load_der_x509_certificate(workload.certificate).public_key()
        encoded = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        (identifier,) = state.lineages
        for name in (workload.marble, str(uuid.uuid4())):
            facts = LineageFacts(identifier, "sgx", "UpToDate", now // 1_000_000)
            signed = certify_marble(
                state.keys,
                read_signing_request(signing_request(), state.keys),
                MarbleLeaf(uuid.UUID(name), "web", encoded, facts),
                now=moment(now),
                end=moment(now + HOUR),
            )
            if name == workload.marble:
                require_reader(state, signed, now)
            else:
                with pytest.raises(ActivateAgainError):
                    require_reader(state, signed, now)


async def test_the_key_before_reads_nothing_and_raises_no_counter(tmp_path: Path) -> None:
    """C2 (c) and M13."""
    async with living(tmp_path) as deployed:
        workload = await deployed.activate()
        await workload.renew()
        before = workload.copy()
        await workload.renew()
        with pytest.raises(LineageSupersededError):
            await before.fetch()
        state, now = deployed.engine.view.running, deployed.engine.current.now()
        identify_marble(state, workload.certificate, now=now)
        with pytest.raises(LineageSupersededError):
            identify_marble(state, before.certificate, now=now)


async def test_the_key_of_an_activation_reads_nothing(tmp_path: Path) -> None:
    """C2 (d): the coordinator made this key, and a variable of the program has it."""
    async with living(tmp_path) as deployed:
        workload = await deployed.activate()
        with pytest.raises(RenewFirstError):
            await workload.fetch()


async def test_a_renewal_without_a_request_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    """H1: there is no renewal without a new key."""
    async with living(tmp_path) as deployed:
        workload = await deployed.activate()
        before = deployed.engine.view.running.lineages
        nonce = await deployed.renewals.challenge(workload.certificate, workload.session)
        bound = renewal_report_data(b"", nonce, workload.certificate)
        request = RenewalRequest(nonce, b"", platform().workload_quote(enclave(), bound))
        with pytest.raises(KeyhouseError):
            await deployed.renewals.renew(request, workload.certificate, workload.session)
        assert deployed.engine.view.running.lineages == before
        await workload.renew()


async def test_a_renewal_for_the_same_key_does_not_end_the_key_before(tmp_path: Path) -> None:
    """H1: two holders of a key cannot both go on by renewing the same key."""
    async with living(tmp_path) as deployed:
        workload = await deployed.activate()
        own = workload.key
        await workload.renew()
        thief = workload.copy()
        workload.key = thief.key = own
        await workload.renew()
        await thief.renew()
        await workload.renew()
        with pytest.raises(LineageSupersededError):
            await thief.renew()


async def test_a_restored_backup_refuses_later_keys_until_an_activation(tmp_path: Path) -> None:
    """H6: the workload is superseded in the old state, and activates again."""
    live, backup = tmp_path / "live", tmp_path / "backup"
    async with living(live) as deployed:
        workload = await deployed.activate()
        await workload.renew()
    shutil.copytree(live, backup)
    async with living(live, None) as deployed:
        await workload.renew(deployed.renewals)
        await workload.renew(deployed.renewals)
    async with living(backup, None) as deployed:
        assert await code_of(workload, deployed) == ("superseded", "superseded")
        again = await deployed.activate(marble=workload.marble)
        await again.renew()
        await again.fetch()


# Time.


async def test_an_ended_certificate_continues_for_a_day(tmp_path: Path) -> None:
    clock = FixedClock()
    async with living(tmp_path, clock=clock) as deployed:
        workload = await deployed.activate()
        await workload.renew()
        clock.let_pass(HOUR + 1_000_000)
        with pytest.raises(RenewFirstError):
            await workload.fetch()
        await workload.renew()
        clock.let_pass(HOUR + GRACE + 1_000_000)
        with pytest.raises(ActivateAgainError):
            await workload.renew()


async def test_a_workload_renews_only_some_times_in_a_minute(tmp_path: Path) -> None:
    async with living(tmp_path) as deployed:
        workload = await deployed.activate()
        other = await deployed.activate()
        for _ in range(A_MINUTE):
            await workload.renew()
        with pytest.raises(UnavailableError, match=str(A_MINUTE)):
            await deployed.renewals.challenge(workload.certificate, workload.session)
        await other.renew()


async def test_an_early_nonce_does_not_exceed_the_limit_of_renewals(tmp_path: Path) -> None:
    async with living(tmp_path) as deployed:
        workload = await deployed.activate()
        for _ in range(A_MINUTE - 1):
            await workload.renew()
        sessions = Session(), Session()
        nonces = [await deployed.renewals.challenge(workload.certificate, s) for s in sessions]
        for session, nonce in zip(sessions, nonces, strict=True):
            csr = signing_request(key=workload.key)
            bound = renewal_report_data(csr, nonce, workload.certificate)
            evidence = platform().workload_quote(enclave(), bound)
            request = RenewalRequest(nonce, csr, evidence)
            renewal = deployed.renewals.renew(request, workload.certificate, session)
            if session is sessions[0]:
                await renewal
            else:
                with pytest.raises(UnavailableError, match=str(A_MINUTE)):
                    await renewal


# Revocation.


async def test_a_revoked_workload_is_refused_by_every_method(tmp_path: Path) -> None:
    async with living(tmp_path) as deployed:
        workload, other = await deployed.activate(), await deployed.activate()
        await workload.renew()
        await other.renew()
        await revoke(deployed, Scope.WORKLOAD, marble_type="web", name=workload.marble)
        for call in (
            deployed.renewals.challenge(workload.certificate, Session()),
            deployed.renewals.serve(workload.certificate),
            deployed.renewals.watch(workload.certificate),
            deployed.renewals.renew(
                RenewalRequest(bytes(32), b"", b""), workload.certificate, Session()
            ),
        ):
            with pytest.raises(RevokedError):
                await call
        state, now = deployed.engine.view.running, deployed.engine.current.now()
        with pytest.raises(RevokedError):
            identify_marble(state, workload.certificate, now=now)
        await other.fetch()
        again = await deployed.activate(marble=workload.marble)  # with evidence, and counted
        await again.renew()
        await again.fetch()


async def test_a_revoked_type_proves_itself_again(tmp_path: Path) -> None:
    async with living(tmp_path) as deployed:
        workload = await deployed.activate()
        await workload.renew()
        thief = workload.copy()
        await revoke(deployed, Scope.TYPE, marble_type="web")
        with pytest.raises(RenewFirstError):
            await thief.fetch()
        await workload.renew()
        await workload.fetch()
        with pytest.raises(LineageSupersededError):
            await thief.fetch()


async def test_a_workload_of_a_revoked_type_raises_no_counter_until_its_renewal(
    tmp_path: Path,
) -> None:
    """M13: also with the key of an activation, which counts before the revocation."""
    async with living(tmp_path) as deployed:
        renewed, fresh = await deployed.activate(), await deployed.activate()
        await renewed.renew()

        def identify(workload: Workload) -> None:
            state, now = deployed.engine.view.running, deployed.engine.current.now()
            identify_marble(state, workload.certificate, now=now)

        identify(renewed)
        identify(fresh)
        await revoke(deployed, Scope.TYPE, marble_type="web")
        for workload in (renewed, fresh):
            with pytest.raises(RenewFirstError):
                identify(workload)
            await workload.renew()
            identify(workload)


async def test_a_type_without_renewal_does_not_activate_on_a_revoked_platform(
    tmp_path: Path,
) -> None:
    plain = {"web": {"Package": "app", "Renewal": {}}, "plain": {"Package": "app"}}
    limited = {**plain, "few": {"Package": "app", "MaxActivations": 5}}
    guard = {
        "ResourceType": "Marbles",
        "ResourceNames": list(limited),
        "Actions": ["RevokeWorkload"],
    }
    raw = marble_manifest(limited, Roles={"guard": guard})
    raw = raw.replace(b'"Roles": ["admin", "writer"]', b'"Roles": ["admin", "writer", "guard"]')
    async with living(tmp_path, raw) as deployed:
        for name in limited:
            await deployed.activate(name)
        (lineage,) = deployed.engine.view.running.lineages.values()
        await revoke(deployed, Scope.PLATFORM, platform=lineage.platform)
        for name in limited:
            with pytest.raises(RevokedError):
                await deployed.activate(name)


async def test_a_revoked_platform_neither_renews_nor_activates(tmp_path: Path) -> None:
    async with living(tmp_path) as deployed:
        workload = await deployed.activate()
        await workload.renew()
        (lineage,) = deployed.engine.view.running.lineages.values()
        await revoke(deployed, Scope.PLATFORM, platform=lineage.platform)
        assert await code_of(workload, deployed) == ("revoked", "revoked")
        with pytest.raises(RevokedError):
            await deployed.activate()
        view = deployed.engine.view
        await revoke(deployed, Scope.PLATFORM, platform=lineage.platform)
        assert deployed.engine.view.position == view.position
    async with living(tmp_path, None) as deployed:
        await update(deployed, LIVING)
        with pytest.raises(RevokedError):
            await deployed.activate()


async def test_a_revoked_workload_stays_revoked_after_a_revocation_of_its_type(
    tmp_path: Path,
) -> None:
    async with living(tmp_path) as deployed:
        workload = await deployed.activate()
        await workload.renew()
        await revoke(deployed, Scope.WORKLOAD, marble_type="web", name=workload.marble)
        await revoke(deployed, Scope.TYPE, marble_type="web")
        assert await code_of(workload, deployed) == ("revoked", "revoked")


async def test_the_revocation_of_a_platform_needs_the_permission_for_each_type(
    tmp_path: Path,
) -> None:
    """M6: the platform may run workloads of every type."""
    raw = living_manifest(Marbles={"plain": {"Package": "app"}})
    async with living(tmp_path, raw) as deployed:
        await deployed.activate()
        await revoke(deployed, Scope.TYPE, marble_type="web")
        with pytest.raises(ForbiddenError, match="plain"):
            await revoke(deployed, Scope.PLATFORM, platform=b"\1" * 16)


async def test_only_a_user_with_the_permission_revokes(tmp_path: Path) -> None:
    async with living(tmp_path, marble_manifest(Users={}, Roles={})) as deployed:
        await deployed.activate()
        with pytest.raises(ForbiddenError, match="RevokeWorkload"):
            await revoke(deployed, Scope.TYPE, marble_type="web")


async def test_the_revocation_of_nothing_is_an_error(tmp_path: Path) -> None:
    async with living(tmp_path) as deployed:
        with pytest.raises(NotFoundError):
            await revoke(deployed, Scope.WORKLOAD, marble_type="web", name="1" * 36)


# Former marble roots.


def overlapping(hours: int = 24) -> bytes:
    return living_manifest(Config={"Trust": {"OverlapHours": hours}})


def roots_of(deployed: Living) -> int:
    """Return the number of former marble roots."""
    return len(deployed.engine.view.running.former_roots)


async def test_former_roots_overlap_and_end(tmp_path: Path) -> None:
    clock = FixedClock()
    async with living(tmp_path, overlapping(), clock=clock) as deployed:
        workload = await deployed.activate()
        before = deployed.engine.view.running.keys.marble_root_cert
        await update(deployed, overlapping(24))
        given = await workload.renew()
        present = deployed.engine.view.running.keys.marble_root_cert
        assert given.roots == (present, before)
        clock.let_pass(25 * HOUR - HOUR // 2)
        assert (await workload.renew()).roots == (present,)


async def test_an_update_of_a_package_ends_the_trust_in_former_roots(tmp_path: Path) -> None:
    async with living(tmp_path, overlapping()) as deployed:
        await update(deployed, overlapping())
        assert roots_of(deployed) == 1
        await update(deployed, b'{"Packages": {"app": {"SecurityVersion": 3}}}')
        assert roots_of(deployed) == 0
        await update(
            deployed, overlapping().replace(b'"SecurityVersion": 2', b'"SecurityVersion": 4')
        )
        assert roots_of(deployed) == 0


async def test_a_fifth_former_root_is_refused(tmp_path: Path) -> None:
    """M9."""
    async with living(tmp_path, overlapping()) as deployed:
        for _ in range(4):
            await update(deployed, overlapping())
        with pytest.raises(ConflictError, match="OverlapHours"):
            await update(deployed, overlapping())
        assert NOW  # the clock stands, so no root has ended


async def test_the_plan_states_which_roots_stay_trusted(tmp_path: Path) -> None:
    """M8: the effect is a part of the plan, and so of its digest and of signed approvals."""

    def effects(deployed: Living, raw: bytes) -> dict[str, str]:
        now = deployed.engine.current.now()
        plan = prepare_plan(deployed.engine.view.running, user("admin").der, raw, now=now).plan
        return {each.what: each.after for each in plan.renewals if each.what.startswith("former")}

    changed = overlapping().replace(b'"SecurityVersion": 2', b'"SecurityVersion": 3')
    async with living(tmp_path, overlapping()) as deployed:
        assert effects(deployed, overlapping(48)) == {"former-root-trusted": "48"}
        for raw in (changed, LIVING, b'{"Packages": {"app": {"SecurityVersion": 3}}}'):
            assert effects(deployed, raw) == {"former-roots-ended": ""}
        await update(deployed, LIVING)
        assert effects(deployed, LIVING) == {}


# Replicas.


@in_simulated_time
async def test_a_replica_knows_every_renewal_and_revocation_of_another(tmp_path: Path) -> None:
    database = Database()
    raw = living_manifest(Config={"SealMode": "Disabled"})
    await begin(SimulatedStore(database), raw)
    async with (
        engine_on(SimulatedStore(database), tmp_path / "a") as one,
        engine_on(SimulatedStore(database), tmp_path / "b") as other,
    ):
        await until_idle()
        both = []
        for engine in (one, other):
            gate = ReadGate(engine)
            opened = Deployment(engine, simulated=False, gate=gate)
            both.append(Living(opened, engine, gate))
        first, second = both
        workload = await first.activate()
        await workload.renew(second.renewals)
        thief = workload.copy()
        await workload.fetch(first.renewals)
        await workload.renew(first.renewals)
        with pytest.raises(LineageSupersededError):
            await thief.fetch(second.renewals)
        await workload.fetch(second.renewals)
        await revoke(second, Scope.WORKLOAD, marble_type="web", name=workload.marble)
        assert await code_of(workload, first) == ("revoked", "revoked")
        assert one.view.running.lineages == other.view.running.lineages
        for each in both:
            each.close()
            each.opened.close()


@in_simulated_time
async def test_no_update_needs_events_that_another_replica_cannot_read(tmp_path: Path) -> None:
    """M11: while a coordinator of an older version serves, the journal keeps its level."""
    database = Database()
    await begin(SimulatedStore(database), marble_manifest())
    store = SimulatedStore(database)
    async with (
        engine_on(store, tmp_path / "a") as one,
        engine_on(SimulatedStore(database), tmp_path / "b") as other,
    ):
        await until_idle()
        own = next(
            each for each in one.view.running.members if each.instance == other.process.instance
        )
        for level in (LIVING_LEVEL - 1, LIVING_LEVEL):
            membership = Membership(
                store_id=STORE_ID,
                instance=own.instance,
                kem=own.kem,
                signing=own.signing,
                settings=SETTINGS,
                level=level,
            )
            raw = vouched(machine(), "member", membership.encode())
            await store.put_note(Note("member", own.instance, raw))
            await one.require_readers(marble_manifest())
            if level < LIVING_LEVEL:
                with pytest.raises(ConflictError):
                    await one.require_readers(LIVING)
            else:
                await one.require_readers(LIVING)
