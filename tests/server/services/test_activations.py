"""Workloads join: every check has its refusal, and what is answered is counted or audited."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from support.cosigner import Cosigner
from support.samples.activation import (
    TLS_CERT,
    Deployment,
    deployment,
    marble_manifest,
    platform,
    quoted_request,
)
from support.samples.deployment import (
    NOW,
    FixedClock,
    crashing_engine,
    running_engine,
    set_manifest,
    user,
)
from support.samples.replicas import begin, engine_on
from support.samples.signing_request import signing_request
from support.samples.simulated_store import Database, SimulatedStore
from support.samples.simulated_time import in_simulated_time, until_idle

from keyhouse.attestation import QuoteRefusedError, quote_binding, report_data
from keyhouse.attestation.quote.report import MAX_QUOTE
from keyhouse.base.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    KeyhouseError,
    UnauthenticatedError,
    UnavailableError,
    WrongPhaseError,
)
from keyhouse.coordinator import (
    ActivationParameters,
    ReadGate,
    SentUpdate,
    UpdatePackages,
    prepare_update,
)
from keyhouse.coordinator.lease import HeldError
from keyhouse.server.logs import A_SECOND
from keyhouse.server.services.activation_checks import read_uuid
from keyhouse.server.services.activation_outcomes import UNKNOWN
from keyhouse_simulation import QuotedTd

MARBLE = "11111111-2222-3333-4444-555555555555"
LIMITED = marble_manifest({"web": {"Package": "app", "MaxActivations": 3}})


async def refused(activation: Any, kind: type[KeyhouseError], words: str = "") -> None:
    with pytest.raises(kind) as caught:
        await activation
    assert words in str(caught.value)


async def raise_version(opened: Deployment, version: int) -> None:
    """Update the package, as its users do."""
    engine = opened.engine
    raw = json.dumps({"Packages": {"app": {"SecurityVersion": version}}}).encode()
    command = prepare_update(
        engine.view.running, SentUpdate(user("admin").der, raw), now=engine.current.now()
    )
    assert isinstance(command, UpdatePackages)
    await engine.submit(command)


async def recorded(opened: Deployment) -> None:
    """Change something: what waits for its record goes along."""
    await raise_version(opened, 2)
    assert len(opened.engine.queue.unrecorded) == 0


async def test_before_a_manifest_nobody_joins(tmp_path: Path) -> None:
    async with deployment(tmp_path) as opened:
        await refused(opened.join(), WrongPhaseError)
        assert opened.counts.attempts == {UNKNOWN: 1}
        assert opened.counts.refusals == {"wrong-phase": 1}


async def test_each_check_names_what_it_refuses(tmp_path: Path) -> None:
    async with deployment(tmp_path, marble_manifest()) as opened:
        join = opened.join
        await refused(join(identity=None), UnauthenticatedError)
        await refused(join("WEB"), ForbiddenError, '"WEB"')
        await refused(join(""), ForbiddenError, '""')
        await refused(join(marble="x"), InvalidError, "UUID: is not a UUID")
        await refused(join(marble="0" * 32), InvalidError, "nil")
        await refused(join(csr=b"x"), InvalidError, "PKCS #10")
        await refused(join(csr=signing_request(["a b"])), InvalidError, "DNS name")
        await refused(join(quote=b"x"), QuoteRefusedError)
        await refused(join(quote=bytes(MAX_QUOTE + 1)), InvalidError, str(MAX_QUOTE))
        # The type comes before the UUID, and both before the quote.
        await refused(join("no", "x", quote=b"x"), ForbiddenError, '"no"')
        await refused(join("web", "x", quote=b"x"), InvalidError, "UUID")
        assert opened.counts.successes == {}
        assert opened.counts.attempts == {"web": 8, UNKNOWN: 3}
        assert opened.audited == []
        told = [event["refusal"] for event in json.loads(opened.events.as_json())]
        assert [refusal["code"] for refusal in told[:4]] == [
            *("unauthenticated", "forbidden", "forbidden", "invalid"),
        ]
        assert told[1]["marbleType"] == "WEB"
        assert '"WEB"' in told[1]["reason"]
        assert told[3]["uuid"] == "x"
        assert opened.engine.view.position is not None
        assert opened.engine.view.log.audit.end == 0


@in_simulated_time
async def test_a_replica_decides_by_what_another_has_acknowledged(tmp_path: Path) -> None:
    """Without a limit nothing is written that another replica's update could outrun."""
    database = Database()
    await begin(SimulatedStore(database), marble_manifest(Config={"SealMode": "Disabled"}))
    store = SimulatedStore(database)
    async with (
        engine_on(SimulatedStore(database), tmp_path / "a") as one,
        engine_on(store, tmp_path / "b") as other,
    ):
        await until_idle()
        store.deaf = True
        first, opened = Deployment(one), Deployment(other, gate=ReadGate(other))
        old = quoted_request()
        await opened.activations.activate(old, TLS_CERT)
        await raise_version(first, 3)
        await refused(opened.activations.activate(old, TLS_CERT), ForbiddenError, "SecurityVersion")
        await opened.activations.activate(quoted_request(isvsvn=3), TLS_CERT)
        store.down = True
        await refused(opened.join(), UnavailableError, "no connection")
        assert opened.counts.successes == {"web": 2}
        for each in (first, opened):
            each.close()


async def test_without_simulation_a_quote_is_needed(tmp_path: Path) -> None:
    async with deployment(tmp_path, marble_manifest(), simulated=False) as opened:
        await refused(opened.join(), ForbiddenError, "no quote")
        await refused(opened.join(csr=b"x"), ForbiddenError, "no quote")  # costs less to see
        given = await opened.activations.activate(quoted_request(), TLS_CERT)
        assert "MARBLE_PREDEFINED_ROOT_CA" in given.env


async def test_a_quote_has_to_be_of_the_package_and_the_certificate(tmp_path: Path) -> None:
    async with deployment(tmp_path, marble_manifest()) as opened:
        activate = opened.activations.activate
        old = quoted_request(isvsvn=1)
        await refused(activate(old, TLS_CERT), ForbiddenError, "SecurityVersion")
        other = quoted_request(signer="cd")
        await refused(activate(other, TLS_CERT), ForbiddenError, "SignerID")
        await refused(activate(quoted_request(), user("thief").der), ForbiddenError, "ReportData")
        await activate(quoted_request(marble=MARBLE), TLS_CERT)
        await recorded(opened)
        (entry,) = opened.audited
        assert len(entry.pop("platform")) == 32
        assert entry == {
            "time": "2027-01-15T08:00:00.000Z",
            "marbleType": "web",
            "uuid": MARBLE,
            "names": ["localhost", "127.0.0.1", "::1"],
            "quoted": True,
            "uniqueID": "01" * 32,
            "signerID": "ab" * 32,
            "tcbStatus": "UpToDate",
        }
        *before, event = json.loads(opened.events.as_json())
        assert [refused["refusal"]["code"] for refused in before] == ["forbidden"] * 3
        assert event["activation"]["uuid"] == MARBLE
        assert event["activation"]["quote"]
        assert opened.counts.without_quote == 0


async def test_a_confidential_vm_is_admitted_by_its_package_and_audited_by_its_measurements(
    tmp_path: Path,
) -> None:
    vm = QuotedTd(mrtd=b"\x07" * 48)
    packages = {"vm": {"TDX": {"MRTD": vm.mrtd.hex(), "RTMR1": vm.rtmrs[1].hex()}}}
    marbles = {"batch": {"Package": "vm", "MaxActivations": 9}, "web": {"Package": "app"}}
    async with deployment(tmp_path, marble_manifest(marbles, Packages=packages)) as opened:
        bound = report_data(quote_binding(TLS_CERT))
        other = platform().td_quote(msgspec.structs.replace(vm, mrtd=b"\x08" * 48), bound)
        await refused(opened.join("batch", quote=other), ForbiddenError, "TDX.MRTD")
        quote = platform().td_quote(vm, bound)
        await refused(opened.join("web", quote=quote), ForbiddenError, "Tee:")
        await opened.join("batch", MARBLE, quote=quote)
        (entry,) = opened.audited
        assert entry["mrtd"] == vm.mrtd.hex()
        assert entry["rtmrs"] == [register.hex() for register in vm.rtmrs]
        assert (len(entry["platform"]), entry["counted"]) == (32, True)
        assert not {"uniqueID", "signerID"} & entry.keys()


async def test_an_update_between_quote_and_answer_cannot_be_passed_by(tmp_path: Path) -> None:
    async with deployment(tmp_path, marble_manifest()) as opened:
        joining = asyncio.create_task(
            opened.activations.activate(quoted_request(isvsvn=2), TLS_CERT)
        )
        await asyncio.sleep(0)  # its quote is on the thread of the checks now
        await raise_version(opened, 3)
        # Either it was answered before the update was, or it was judged by the new version.
        (outcome,) = await asyncio.gather(joining, return_exceptions=True)
        if isinstance(outcome, ForbiddenError):
            assert "SecurityVersion" in str(outcome)
        else:
            assert isinstance(outcome, ActivationParameters)
        await refused(
            opened.activations.activate(quoted_request(isvsvn=2), TLS_CERT),
            ForbiddenError,
            "SecurityVersion",
        )
        await opened.activations.activate(quoted_request(isvsvn=3), TLS_CERT)


def slow(**sections: Any) -> bytes:
    """Return a manifest under which each activation has a slow certificate made."""
    return marble_manifest(
        {"web": {"Package": "app", "Parameters": {"Env": {"K": "{{ pem .Secrets.rsa.Private }}"}}}},
        Secrets={"rsa": {"Type": "cert-rsa", "Size": 2048}},
        **sections,
    )


async def test_nobody_joins_whose_turn_comes_after_the_lease(tmp_path: Path) -> None:
    policy = f"witness W {Cosigner.ed25519().verifier} https://w.example\nquorum W\n"
    rules = {"Witnesses": policy, "Serve": "Witnessed"}
    async with deployment(tmp_path, slow(Config={"Transparency": rules})) as opened:
        log, lease = opened.engine.view.running.public_log, opened.engine.lease
        assert log is not None
        lease.on_quorum(log.frontier.size, b"a checkpoint")
        gate = threading.Event()
        before = asyncio.create_task(opened.activations._executor.run(gate.wait))
        joining = asyncio.create_task(opened.join())
        await asyncio.sleep(0)  # it waits for its turn
        lease.on_refusal("forked", lasting=True)
        gate.set()
        await refused(joining, HeldError, "forked")
        await before
        assert len(opened.engine.queue.unrecorded) == 0


async def test_an_update_while_slow_certificates_are_made_is_not_passed_by(tmp_path: Path) -> None:
    async with deployment(tmp_path, slow()) as opened:
        gate = threading.Event()
        before = asyncio.create_task(opened.activations._executor.run(gate.wait))
        joining = asyncio.create_task(opened.join())
        await asyncio.sleep(0)  # it waits for its turn, judged and prepared on the state of now
        await raise_version(opened, 3)
        gate.set()
        given = await joining
        await before
        chain = given.env["MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN"]
        leaf, intermediate = x509.load_pem_x509_certificates(chain)
        leaf.verify_directly_issued_by(intermediate)
        keys = opened.engine.view.running.keys
        assert intermediate.public_bytes(Encoding.DER) == keys.intermediate_cert


async def test_anonymous_clients_fill_neither_the_log_nor_the_events(tmp_path: Path) -> None:
    clock = FixedClock(NOW)
    async with deployment(tmp_path, marble_manifest(), clock=clock) as opened:
        await opened.join(marble=MARBLE)
        clock.time -= 3_600_000_000  # set back: the security time stands still for an hour
        for number in range(A_SECOND + 5):
            await refused(opened.join("n" * 10_000, str(number)), ForbiddenError, "nnn")
        opened.seconds += 1
        await refused(opened.join("no", "last"), ForbiddenError, '"no"')
        first, *told = json.loads(opened.events.as_json())
    assert first["activation"]["uuid"] == MARBLE
    claimed = [refusal["refusal"]["uuid"] for refusal in told]
    assert claimed == [*map(str, range(A_SECOND)), "last"]
    assert told[0]["refusal"]["marbleType"] == "n" * 100 + "..."
    assert opened.counts.refusals == {"forbidden": A_SECOND + 6}


@pytest.mark.parametrize(
    "text",
    [
        "11111111-2222-3333-4444-ABCDEF555555",
        "urn:uuid:11111111-2222-3333-4444-abcdef555555",
        "URN:UUID:11111111-2222-3333-4444-abcdef555555",
        "{11111111-2222-3333-4444-abcdef555555}",
        "11111111222233334444abcdef555555",
    ],
)
def test_a_uuid_may_be_spelled_in_four_ways(text: str) -> None:
    assert str(read_uuid(text)) == "11111111-2222-3333-4444-abcdef555555"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{11111111222233334444abcdef555555}",
        "1-1111111222233334444abcdef555555",
        " 11111111-2222-3333-4444-abcdef555555",
        "11111111-2222-3333-4444-abcdef555555\n",
        "urn:uuid:11111111222233334444abcdef555555",
        "1" * 33,
        "g" * 32,
        "\u0661" * 32,
    ],
)
def test_nothing_else_is_a_uuid(text: str) -> None:
    with pytest.raises(InvalidError):
        read_uuid(text)


async def test_a_limit_is_kept_through_restarts_and_updates(tmp_path: Path) -> None:
    async with deployment(tmp_path, LIMITED) as opened:
        await opened.join(marble=MARBLE)
    async with crashing_engine(tmp_path) as engine:  # what was answered was durable
        crashed = Deployment(engine)
        await crashed.join(marble=MARBLE)
        crashed.close()
    async with deployment(tmp_path) as opened:
        await raise_version(opened, 3)
        await opened.join(marble=MARBLE)
        await refused(opened.join(marble=MARBLE), ForbiddenError, "MaxActivations")
        await refused(opened.join(), ForbiddenError, "MaxActivations")
        assert [entry["counted"] for entry in opened.audited] == [True] * 3
    async with deployment(tmp_path) as opened:
        await refused(opened.join(), ForbiddenError, "MaxActivations")


async def test_many_at_once_never_exceed_a_limit(tmp_path: Path) -> None:
    async with deployment(tmp_path, LIMITED) as opened:
        answers = await asyncio.gather(*(opened.join() for _ in range(20)), return_exceptions=True)
        assert sum(isinstance(answer, ForbiddenError) for answer in answers) == 17
        assert opened.counts.successes == {"web": 3}
        assert opened.engine.view.running.activations["web"] == 3


async def test_without_a_limit_the_record_follows_and_a_stop_writes_it(tmp_path: Path) -> None:
    async with deployment(tmp_path, marble_manifest()) as opened:
        before = opened.engine.view.revision
        for _ in range(3):
            await opened.join()
        assert opened.engine.view.revision == before  # nobody waited
        assert len(opened.engine.queue.unrecorded) == 3
        assert opened.counts.without_quote == 3
    async with deployment(tmp_path) as opened:
        assert [entry["marbleType"] for entry in opened.audited] == ["web"] * 3
        assert opened.engine.view.running.activations.get("web") is None


async def test_a_crash_loses_only_what_was_not_recorded_yet(tmp_path: Path) -> None:
    async with crashing_engine(tmp_path) as engine:
        await set_manifest(engine, marble_manifest())
        opened = Deployment(engine)
        await opened.join()
        await recorded(opened)
        await opened.join()
        opened.close()
    async with running_engine(tmp_path) as engine:
        assert engine.view.log.audit.end == 1


async def test_a_missing_upload_is_named(tmp_path: Path) -> None:
    raw = marble_manifest(
        {"web": {"Package": "app", "Parameters": {"Env": {"A": "{{ string .Secrets.token }}"}}}},
        Secrets={"token": {"Type": "plain", "UserDefined": True}},
    )
    async with deployment(tmp_path, raw) as opened:
        await refused(
            opened.join(),
            ConflictError,
            'secret "token" has no value yet; Marbles.web.Parameters.Env.A needs the value',
        )


async def test_slow_certificates_are_made_off_the_loop(tmp_path: Path) -> None:
    raw = marble_manifest(
        {
            "web": {
                "Package": "app",
                "MaxActivations": 1,
                "Parameters": {"Files": {"/key": "{{ pem .Secrets.rsa.Private }}"}},
            }
        },
        Secrets={"rsa": {"Type": "cert-rsa", "Size": 2048}},
    )
    async with deployment(tmp_path, raw) as opened:
        given = await opened.join()
        assert given.files["/key"].startswith(b"-----BEGIN PRIVATE KEY-----\n")
        assert repr(given) == f"<Parameters of 1 files and {len(given.env)} variables>"


async def test_the_certificate_is_of_the_uuid_in_its_canonical_form(tmp_path: Path) -> None:
    async with deployment(tmp_path, marble_manifest(), clock=FixedClock(NOW)) as opened:
        given = await opened.join(marble=f"urn:uuid:{MARBLE.upper()}")
        chain = given.env["MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN"]
        leaf, intermediate = x509.load_pem_x509_certificates(chain)
        assert leaf.subject.rfc4514_string() == f"CN={MARBLE}"
        leaf.verify_directly_issued_by(intermediate)
