"""A team's tests of workloads in confidential VMs: beside enclaves, by the real code."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keyhouse.testing import (
    ActivationRefusedError,
    Deployment,
    TcbStatus,
    confidential_vm,
    enclave,
    snp_vm,
)

DB = confidential_vm("db", command_line="ro quiet", config=b"the configuration")
WEB = enclave("web")
AMD = snp_vm("amd", command_line="ro quiet", config=b"the configuration")
SAY = "import os; print(os.environ['TOKEN'], open('conf/token').read())"


def manifest(**packages: Any) -> dict[str, Any]:
    """Return a manifest of an enclave and of both kinds of VMs that share a secret."""
    given = {
        "Env": {"TOKEN": "{{ hex .Secrets.token }}"},
        "Files": {"conf/token": "{{ hex .Secrets.token }}"},
    }
    return {
        "Packages": {"web": WEB.package, "db": DB.package, "amd": AMD.package} | packages,
        "Marbles": {name: {"Package": name, "Parameters": given} for name in ("web", "db", "amd")},
        "Secrets": {"token": {"Type": "symmetric-key", "Size": 128, "Shared": True}},
    }


@pytest.fixture(scope="module")
def mixed() -> Iterator[Deployment]:
    with Deployment(manifest()) as running:
        yield running


def test_enclaves_and_confidential_vms_join_one_deployment(mixed: Deployment) -> None:
    web, db, amd = (mixed.activate(*each) for each in (("web", WEB), ("db", DB), ("amd", AMD)))
    assert db.env["TOKEN"] == web.env["TOKEN"] == amd.env["TOKEN"]
    assert db.root_ca == web.root_ca == amd.root_ca
    for vm in (db, amd):
        vm.certificate.verify_directly_issued_by(vm.chain[1])


@pytest.mark.parametrize(("kind", "vm"), [("db", DB), ("amd", AMD)], ids=["TDX", "SEV-SNP"])
def test_program_in_a_vm_gets_its_certificate_and_secrets(
    mixed: Deployment, tmp_path: Path, kind: str, vm: Any
) -> None:
    """The launcher asks the real platform, over a directory that behaves like configfs-tsm."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    ended = mixed.launch(
        kind, vm, [sys.executable, "-c", SAY], folder=tmp_path, env={"TMPDIR": str(temporary)}
    ).wait()
    token = mixed.activate(kind, vm).env["TOKEN"].decode()
    assert (ended.code, ended.output) == (0, f"{token} {token}\n"), ended.errors
    assert list(temporary.iterdir()) == [], "nothing of the directory is left"


def test_program_in_another_vm_is_not_started(mixed: Deployment, tmp_path: Path) -> None:
    later = DB.extended(3, b"a container nobody knows")
    ended = mixed.launch("db", later, ["/bin/true"], folder=tmp_path).wait()
    assert ended.code == 1
    assert 'package "db"' in ended.errors
    assert " TDX.RTMR3: " in ended.errors


@pytest.mark.parametrize(
    ("kind", "who", "rule"),
    [
        ("db", confidential_vm("db", firmware="another"), "TDX.MRTD"),
        ("db", confidential_vm("another", config=b"the configuration"), "TDX.RTMR1"),
        ("db", confidential_vm("db", command_line="rw", config=b"the configuration"), "TDX.RTMR2"),
        ("db", DB.extended(0, b"ACPI tables of the host"), "TDX.RTMR0"),
        ("db", DB.extended(3, b"an event"), "TDX.RTMR3"),
        ("db", confidential_vm("db", command_line="ro quiet"), "TDX.MRConfigID"),
        ("db", WEB, "Tee: the quote is of an SGX enclave"),
        ("web", DB, "Tee: the quote is of a confidential VM"),
        ("amd", snp_vm("another", config=b"the configuration"), "SNP.Measurement"),
        ("amd", snp_vm("amd", firmware="another", command_line="ro quiet"), "SNP.Measurement"),
        ("amd", snp_vm("amd", command_line="ro quiet"), "SNP.HostData"),
    ],
)
def test_refusal_names_the_field(mixed: Deployment, kind: str, who: Any, rule: str) -> None:
    with pytest.raises(ActivationRefusedError, match=rule):
        mixed.activate(kind, who)


def test_events_decide_in_their_order() -> None:
    first = DB.extended(3, b"a").extended(3, b"b")
    assert first == DB.extended(3, b"a").extended(3, b"b")
    assert first != DB.extended(3, b"b").extended(3, b"a")
    assert first.rtmrs[:3] == DB.rtmrs[:3]


def test_tcb_of_the_machine_counts_for_both(mixed: Deployment) -> None:
    mixed.set_tcb("OutOfDate")
    try:
        for kind, who in (("web", WEB), ("db", DB)):
            with pytest.raises(ActivationRefusedError, match="AcceptedTCBStatuses"):
                mixed.activate(kind, who)
    finally:
        mixed.set_tcb(TcbStatus.UP_TO_DATE)
    mixed.activate("db", DB)


def test_firmware_older_than_the_package_asks_for_is_refused() -> None:
    newer = AMD.package
    newer["SNP"]["MinimumTCB"]["Microcode"] += 1
    with (
        Deployment(manifest(amd=newer)) as running,
        pytest.raises(ActivationRefusedError, match=r"SNP\.MinimumTCB"),
    ):
        running.activate("amd", AMD)
