"""A team's tests of its workloads: activation, rotation, limits and refusals, by the real code."""

import asyncio
import hmac
import signal
import ssl
import sys
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from keyhouse.base.errors import RefusedError
from keyhouse.client import CallRefusedError
from keyhouse.launcher import NotReadyError
from keyhouse.testing import (
    ActivationRefusedError,
    Deployment,
    Marble,
    TcbStatus,
    enclave,
    make_user,
)

WEB = enclave("web", security_version=2)
DB = enclave("db")
ALICE = make_user("alice")


def manifest(
    marbles: Mapping[str, str] | None = None, **packages: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the manifest, with further packages, and further marbles by their package."""
    further = {kind: {"Package": package} for kind, package in (marbles or {}).items()}
    return {
        "Packages": {"web": WEB.package_by_signer, "db": DB.package} | packages,
        "Marbles": {
            "web": {
                "Package": "web",
                "Parameters": {
                    "Files": {"conf/token": "{{ hex .Secrets.token }}"},
                    "Env": {"OWN": "{{ hex .Secrets.own }}", "MODE": "test"},
                },
            },
            "db": {
                "Package": "db",
                "MaxActivations": 1,
                "Parameters": {"Argv": ["db", "--serve"]},
            },
            **further,
        },
        "Secrets": {
            "token": {"Type": "symmetric-key", "Size": 128, "Shared": True},
            "own": {"Type": "symmetric-key", "Size": 128},
        },
        "Users": {"alice": {"Certificate": ALICE.certificate, "Roles": ["release", "operator"]}},
        "Roles": {
            "release": {
                "ResourceType": "Packages",
                "ResourceNames": ["web"],
                "Actions": ["UpdateSecurityVersion"],
            },
            "operator": {"ResourceType": "Manifest", "Actions": ["UpdateManifest"]},
        },
        "Config": {"FeatureGates": ["MonotonicCounter"]},
    }


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    """For tests that change nothing but who has joined."""
    with Deployment(manifest(), certificate_days=10) as running:
        yield running


def own(marble: Marble) -> bytes:
    return marble.env["OWN"]


def test_workload_gets_what_the_manifest_says(deployment: Deployment) -> None:
    who = uuid.uuid4()

    web = deployment.activate("web", WEB, names="web.example.com", who=who)

    assert (web.uuid, web.marble_type, web.argv) == (who, "web", ())
    assert web.env["MODE"] == b"test"
    assert len(bytes.fromhex(web.files["conf/token"].decode())) == 16
    web.certificate.verify_directly_issued_by(web.root_ca)
    web.chain[1].verify_directly_issued_by(deployment.root)
    names = web.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["web.example.com"]
    context = ssl.create_default_context(cadata=web.env["MARBLE_PREDEFINED_ROOT_CA"].decode())
    assert context.cert_store_stats()["x509_ca"] == 1


def test_secrets_are_shared_or_of_one_instance(deployment: Deployment) -> None:
    who = uuid.uuid4()
    first, again = (deployment.activate("web", WEB, who=who) for _ in range(2))
    other = deployment.activate("web", WEB)

    assert first.files == other.files
    assert hmac.compare_digest(own(first), own(again))
    assert own(first) != own(other)


@pytest.mark.parametrize(
    ("kind", "who", "rule"),
    [
        ("web", enclave("web", signer="someone", security_version=2), "SignerID"),
        ("web", enclave("web", product_id=2, security_version=2), "ProductID"),
        ("web", enclave("web", security_version=1), "SecurityVersion"),
        ("db", enclave("web"), "UniqueID"),
        ("db", enclave("db", security_version=2), "UniqueID"),
        ("cache", WEB, "no marble type"),
    ],
    ids=["signer", "product", "old version", "package", "another build", "type"],
)
def test_refusal_names_the_rule(deployment: Deployment, kind: str, who: Any, rule: str) -> None:
    with pytest.raises(ActivationRefusedError, match=rule) as refused:
        deployment.activate(kind, who)

    assert refused.value.status == "PERMISSION_DENIED"


def test_newer_version_of_the_same_signer_is_admitted(deployment: Deployment) -> None:
    assert deployment.activate("web", enclave("web", security_version=3)).marble_type == "web"


def test_workload_without_a_quote_joins_as_simulations_allow(deployment: Deployment) -> None:
    assert deployment.activate("web", None).env["MODE"] == b"test"


async def test_activation_works_on_an_event_loop_too(deployment: Deployment) -> None:
    found = await asyncio.to_thread(deployment.activate, "web", WEB)

    assert found.marble_type == deployment.activate("web", WEB).marble_type


def test_workload_can_count(deployment: Deployment) -> None:
    web = deployment.activate("web", WEB)

    with deployment.client(web.identity) as client:
        assert client.raise_counter("starts", 3) == 0
        assert client.raise_counter("starts", 4) == 3


def test_process_becomes_the_program(deployment: Deployment, tmp_path: Path) -> None:
    say = "import os; print(os.environ['MODE'], os.environ['MORE'], open('conf/token').read())"
    program = [sys.executable, "-c", say]

    ended = deployment.launch("web", WEB, program, folder=tmp_path, env={"MORE": "x"}).wait()

    token = deployment.activate("web", WEB).files["conf/token"].decode()
    assert (ended.code, ended.output) == (0, f"test x {token}\n"), ended.errors
    assert (tmp_path / "conf/token").stat().st_mode & 0o777 == 0o600


def test_process_that_serves_ends_with_its_deployment(tmp_path: Path) -> None:
    say = "print('here', flush=True); import signal; signal.pause()"
    with Deployment(manifest()) as deployment:
        joined = deployment.launch("web", WEB, [sys.executable, "-c", say], folder=tmp_path)
        assert joined.process.stdout is not None
        assert joined.process.stdout.readline() == "here\n"

    assert joined.process.returncode == -signal.SIGTERM


def test_process_of_another_package_is_refused(deployment: Deployment, tmp_path: Path) -> None:
    ended = deployment.launch("web", DB, ["/bin/true"], folder=tmp_path).wait()

    assert ended.code == 1
    assert 'package "web"' in ended.errors


def test_limit_holds_and_certificates_end_and_time_goes_ahead_only() -> None:
    with Deployment(manifest(), certificate_days=10) as deployment:
        web = deployment.activate("web", WEB)
        assert deployment.activate("db", DB).argv == ("db", "--serve")
        with pytest.raises(ActivationRefusedError, match="MaxActivations"):
            deployment.activate("db", DB)

        deployment.advance(timedelta(days=11))

        assert web.certificate.not_valid_after_utc < deployment.clock.moment()
        with deployment.client(web.identity) as client, pytest.raises(CallRefusedError):
            client.raise_counter("starts", 1)
        renewed = deployment.activate("web", WEB)
        assert renewed.certificate.not_valid_before_utc > datetime.now(UTC) + timedelta(days=10)
        deployment.advance(timedelta(days=800))  # longer than the collateral, which is renewed
        deployment.activate("web", WEB)
        with pytest.raises(ValueError, match="clock"):
            deployment.advance(timedelta(seconds=-1))


def test_deployment_that_began_some_time_ago_has_a_past_and_reaches_the_present() -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    with Deployment(manifest(), ago=timedelta(days=2)) as deployment:
        early = deployment.activate("web", WEB)
        deployment.advance(timedelta(days=2))
        late = deployment.activate("web", WEB)
        with deployment.client() as anybody:
            assert anybody.update_log()[0].time < yesterday.isoformat()

    assert early.certificate.not_valid_before_utc < yesterday
    assert yesterday < late.certificate.not_valid_before_utc <= datetime.now(UTC)


def test_update_rotates_the_roots_and_raises_the_version() -> None:
    with Deployment(manifest()) as deployment:
        before = deployment.activate("web", WEB)
        with deployment.client(ALICE.identity) as alice:
            alice.update(b'{"Packages": {"web": {"SecurityVersion": 3}}}')

        with pytest.raises(ActivationRefusedError, match="SecurityVersion"):
            deployment.activate("web", WEB)
        after = deployment.activate("web", enclave("web", security_version=3))
        assert after.root_ca != before.root_ca
        assert after.chain[1] != before.chain[1]
        assert after.files == before.files


def test_machine_whose_tcb_is_outdated_is_refused_where_the_package_says_so() -> None:
    statuses = ["UpToDate", "OutOfDate", "SWHardeningNeeded"]
    lenient = DB.package | {"AcceptedTCBStatuses": statuses, "AcceptedAdvisories": ["SA-1"]}
    with Deployment(manifest(lenient=lenient, marbles={"old": "lenient"})) as deployment:
        deployment.activate("web", WEB)

        deployment.set_tcb(TcbStatus.OUT_OF_DATE)

        with pytest.raises(ActivationRefusedError, match="OutOfDate"):
            deployment.activate("web", WEB)
        deployment.activate("old", DB)
        deployment.advance(timedelta(days=400))  # new collateral says the same
        with pytest.raises(ActivationRefusedError, match="OutOfDate"):
            deployment.activate("web", WEB)
        deployment.set_tcb("SWHardeningNeeded", ["SA-1"])
        deployment.activate("old", DB)
        deployment.set_tcb("SWHardeningNeeded", ["SA-1", "SA-2"])
        with pytest.raises(ActivationRefusedError, match="SA-2"):
            deployment.activate("old", DB)
        deployment.set_tcb("UpToDate")
        deployment.activate("web", WEB)
        with pytest.raises(TypeError, match="advisories"):
            deployment.set_tcb("SWHardeningNeeded", "SA-1")
        for never in ("Revoked", "uptodate"):
            with pytest.raises(ValueError):
                deployment.set_tcb(never)


def test_process_that_joins_later_leaves_the_machine_as_it_is(tmp_path: Path) -> None:
    outdated = DB.package | {"AcceptedTCBStatuses": ["OutOfDate"]}
    with Deployment(manifest(outdated=outdated, marbles={"old": "outdated"})) as deployment:
        deployment.advance(timedelta(days=400))
        deployment.set_tcb("OutOfDate")

        ended = deployment.launch("old", DB, [sys.executable, "-c", ""], folder=tmp_path).wait()

        assert ended.code == 0, ended.errors
        deployment.activate("old", DB)
        with pytest.raises(ActivationRefusedError, match="OutOfDate"):
            deployment.activate("web", WEB)


@pytest.mark.parametrize("days", [40, 800])
def test_folder_that_is_opened_again_continues_at_its_own_time(tmp_path: Path, days: int) -> None:
    folder = tmp_path / "data"
    lenient = DB.package | {"AcceptedTCBStatuses": ["OutOfDate"]}
    with Deployment(manifest(lenient=lenient, marbles={"old": "lenient"}), folder=folder) as first:
        first.advance(timedelta(days=days))
        first.set_tcb("OutOfDate")
        before = first.activate("old", DB)

    with Deployment(folder=folder) as again:
        after = again.activate("old", DB)
        assert after.certificate.not_valid_before_utc >= before.certificate.not_valid_before_utc
        again.advance(timedelta(days=400))
        again.activate("old", DB)
        with pytest.raises(ActivationRefusedError, match="OutOfDate"):
            again.activate("web", WEB)


def test_first_manifest_is_waited_for_and_the_folder_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with Deployment(folder=folder) as deployment:
        with pytest.raises(NotReadyError):
            deployment.activate("web", WEB)
        assert deployment.set_manifest(manifest()) == {}
        token, root = deployment.activate("web", WEB).files, deployment.root
        deployment.activate("db", DB)

    with Deployment(folder=folder) as again:
        assert again.root == root
        assert again.activate("web", WEB).files == token
        with pytest.raises(ActivationRefusedError):
            again.activate("db", DB)


def test_manifest_with_problems_stops_the_start(tmp_path: Path) -> None:
    with (
        pytest.raises(CallRefusedError, match="Packges"),
        Deployment({"Packges": {}}, folder=tmp_path / "data"),
    ):
        pass


def test_folder_of_others_stops_the_start(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "simulation").mkdir(mode=0o755)
    with pytest.raises(RefusedError), Deployment(folder=tmp_path):
        pass


def test_what_ended_leaves_no_folder_and_is_not_joined_any_more() -> None:
    with Deployment(manifest()) as ended:
        folder = ended.folder

    with pytest.raises(AssertionError, match="enter the context"):
        ended.activate("web", WEB)

    assert not folder.parent.exists()
