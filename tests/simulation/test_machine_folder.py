"""A simulated machine lives in a folder: the same one again, or an error that names the damage."""

import hashlib
import json
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from keyhouse.attestation import (
    Measurements,
    NoSealingKeyError,
    SealPolicy,
    TcbStatus,
    Tee,
    Verifier,
    quote_binding,
    read_collateral,
    read_expected_identity,
    report_data,
)
from keyhouse.attestation.coordinator_appraisal import appraise
from keyhouse.attestation.platforms.find import SIMULATED_BUNDLES, SimulatedTcb
from keyhouse.base.errors import RefusedError
from keyhouse.wire.kinds.tdx import TdxIdentity
from keyhouse_simulation import COORDINATOR, FolderDamagedError, add_machine, open_platform

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
Clock = Callable[[], datetime]


def clock(moment: datetime = NOW) -> Clock:
    return lambda: moment


def test_the_folder_is_private_and_holds_what_clients_need(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "simulation"
    platform = open_platform(folder, now=clock())
    for path in (folder, folder.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    names = {path.name for path in folder.iterdir()}
    public = {"root.pem", "collateral.json", "collateral-tdx.json", "attestation.json"}
    public |= {"amd.pem", "amd-root.pem"}
    assert names == {"machine.json"} | public
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in folder.iterdir())
    binding = quote_binding(b"root")
    verdict = Verifier(platform.root_ca).verify(
        platform.quote(report_data(binding)),
        read_collateral((folder / "collateral.json").read_bytes()),
        NOW,
    )
    expected = read_expected_identity((folder / "attestation.json").read_bytes())
    appraise(verdict, expected, binding=binding)
    for_vms = read_collateral((folder / "collateral-tdx.json").read_bytes())
    quote = platform.td_quote(None, report_data(binding))
    assert Verifier(platform.root_ca).verify(quote, for_vms, NOW).tee is Tee.TDX


def test_opened_again_it_is_the_same_machine(tmp_path: Path) -> None:
    first = open_platform(tmp_path / "m", now=clock())
    before = {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()}
    again = open_platform(tmp_path / "m", now=clock(NOW + DAY))
    assert again.root_ca == first.root_ca
    for policy in SealPolicy:
        assert again.sealing_key(policy) == first.sealing_key(policy)
    assert {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()} == before


def test_machines_of_one_vendor_verify_with_the_same_collateral(tmp_path: Path) -> None:
    one = open_platform(tmp_path / "one", now=clock())
    other = Measurements(b"o" * 32, b"s" * 32, 7, 2)
    two = add_machine(tmp_path / "two", tmp_path / "one", now=clock(), coordinator=other)
    three = add_machine(tmp_path / "three", tmp_path / "two", now=clock(NOW + DAY))
    again = open_platform(tmp_path / "two", now=clock(NOW + DAY))

    assert (three.measurements, again.measurements) == (COORDINATOR, other)
    verdicts = []
    for platform in (one, two, three, again):
        assert platform.root_ca == one.root_ca
        for name in SIMULATED_BUNDLES:
            bundle = (tmp_path / "one" / name).read_bytes()
            assert (tmp_path / "two" / name).read_bytes() == bundle
        collateral = read_collateral((tmp_path / "one" / "collateral.json").read_bytes())
        quote = platform.quote(report_data(bytes(32)))
        verdicts.append(Verifier(one.root_ca).verify(quote, collateral, NOW))
    assert [each.mrenclave for each in verdicts[1:3]] == [b"o" * 32, COORDINATOR.unique_id]
    assert len({each.ppid for each in verdicts}) == 3
    keys = [each.sealing_key(SealPolicy.PRODUCT_KEY) for each in (one, two, three)]
    assert keys[0] not in keys[1:]
    assert keys[1] != keys[2]
    assert again.sealing_key(SealPolicy.PRODUCT_KEY) == keys[1]


def test_the_coordinator_on_a_machine_may_be_a_confidential_vm(tmp_path: Path) -> None:
    open_platform(tmp_path / "one", now=clock())
    wanted = TdxIdentity(mrtd="ab" * 48)
    add_machine(tmp_path / "two", tmp_path / "one", now=clock(), coordinator=wanted)
    vm = open_platform(tmp_path / "two", now=clock()).coordinator
    collateral = read_collateral((tmp_path / "one" / "collateral-tdx.json").read_bytes())
    binding = quote_binding(b"root")
    verdict = Verifier(vm.root_ca).verify(vm.quote(report_data(binding)), collateral, NOW)
    expected = read_expected_identity((tmp_path / "two" / "attestation.json").read_bytes())

    assert vm.kind == "simulation"
    appraise(verdict, expected, binding=binding)
    with pytest.raises(NoSealingKeyError):
        vm.sealing_key(SealPolicy.PRODUCT_KEY)
    assert open_platform(tmp_path / "one", now=clock()).coordinator.measurements == COORDINATOR


def test_a_machine_is_added_to_an_empty_folder_alone(tmp_path: Path) -> None:
    open_platform(tmp_path / "one", now=clock())
    with pytest.raises(FolderDamagedError, match=r"machine\.json .*exists"):
        add_machine(tmp_path / "one", tmp_path / "one", now=clock())


@pytest.mark.parametrize("text", ["{", "{}", json.dumps({"UniqueID": "ab" * 32})])
def test_a_damaged_coordinator_is_named(tmp_path: Path, text: str) -> None:
    open_platform(tmp_path / "one", now=clock())
    (tmp_path / "one" / "coordinator.json").write_text(text)
    with pytest.raises(FolderDamagedError, match=r"coordinator\.json"):
        open_platform(tmp_path / "one", now=clock())


def test_a_deleted_folder_is_a_new_machine(tmp_path: Path) -> None:
    first = open_platform(tmp_path / "m", now=clock())
    for path in (tmp_path / "m").iterdir():
        path.unlink()
    second = open_platform(tmp_path / "m", now=clock())
    assert second.root_ca != first.root_ca
    assert second.sealing_key(SealPolicy.PRODUCT_KEY) != first.sealing_key(SealPolicy.PRODUCT_KEY)


def test_collateral_that_ends_soon_is_renewed_and_the_old_still_verifies(tmp_path: Path) -> None:
    first = open_platform(tmp_path / "m", now=clock())
    later = NOW + 300 * DAY
    second = open_platform(tmp_path / "m", now=clock(later))
    assert second.collateral != first.collateral
    verifier = Verifier(first.root_ca)
    quote = second.quote(bytes(64))
    assert verifier.verify(quote, first.collateral, later).freshness.expires < later + 90 * DAY
    assert verifier.verify(quote, second.collateral, later).freshness.expires > later + 300 * DAY


@pytest.mark.parametrize(
    "name", ["root.pem", "collateral.json", "collateral-tdx.json", "attestation.json"]
)
@pytest.mark.parametrize("content", [None, b"", b"junk", b"\xff" * 100])
def test_a_lost_or_changed_public_file_is_regenerated(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    first = open_platform(tmp_path / "m", now=clock())
    path = tmp_path / "m" / name
    good = path.read_bytes()
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert open_platform(tmp_path / "m", now=clock()).root_ca == first.root_ca
    if "collateral" not in name:  # its signatures are new
        assert path.read_bytes() == good
    bundles = [read_collateral((tmp_path / "m" / each).read_bytes()) for each in SIMULATED_BUNDLES]
    assert {bundle.root_ca_crl for bundle in bundles} == {bundles[0].root_ca_crl}


def with_checksum(record: dict[str, Any]) -> str:
    rest = json.dumps({**record, "checksum": ""}, separators=(",", ":"))
    return json.dumps({**record, "checksum": hashlib.sha256(rest.encode()).hexdigest()})


def damage(content: str) -> dict[str, str]:
    record = json.loads(content)
    keys, certificates = record["keys"], record["certificates"]

    def changed(**parts: object) -> str:
        return with_checksum({**record, **parts})

    return {
        "empty": "",
        "cut": content[: len(content) // 2],
        "no JSON": "CANARY",
        "a list": "[]",
        "newer": changed(version=2),
        "key missing": changed(keys={"root_key": keys["root_key"]}),
        "no hex": changed(keys={**keys, "root_key": "CANARY"}),
        "no key": changed(keys={**keys, "root_key": "00ff"}),
        "key of another": changed(keys={**keys, "root_key": keys["tcb_key"]}),
        "certificate of another": changed(
            certificates={**certificates, "pck": certificates["root"]}
        ),
        "short sealing root": changed(sealing_root="00"),
        "endless": content + " " * 70_000,
    }


def contents(folder: Path) -> str:
    open_platform(folder, now=clock())
    return (folder / "machine.json").read_text()


CASES = [
    "a list",
    "certificate of another",
    "cut",
    "empty",
    "endless",
    "key missing",
    "key of another",
    "newer",
    "no JSON",
    "no hex",
    "no key",
    "short sealing root",
]


@pytest.mark.parametrize("case", CASES)
def test_a_damaged_machine_file_is_named_and_left_as_it_is(tmp_path: Path, case: str) -> None:
    folder = tmp_path / "m"
    bad = damage(contents(folder))[case]
    (folder / "machine.json").write_text(bad)
    with pytest.raises(FolderDamagedError, match=r"machine\.json") as caught:
        open_platform(folder, now=clock())
    assert "CANARY" not in str(caught.value)
    assert (folder / "machine.json").read_text() == bad


def test_each_changed_character_of_the_machine_file_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    good = contents(folder)
    for at in range(0, len(good) - 1, 41):
        other = "1" if good[at] != "1" else "2"
        (folder / "machine.json").write_text(good[:at] + other + good[at + 1 :])
        with pytest.raises(FolderDamagedError, match=r"machine\.json"):
            open_platform(folder, now=clock())


def test_a_missing_machine_file_among_the_others_is_damage_and_no_new_machine(
    tmp_path: Path,
) -> None:
    open_platform(tmp_path / "m", now=clock())
    (tmp_path / "m" / "machine.json").unlink()
    with pytest.raises(FolderDamagedError, match=r"machine\.json .*missing"):
        open_platform(tmp_path / "m", now=clock())


def test_wider_permissions_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    open_platform(folder, now=clock())
    (folder / "machine.json").chmod(0o640)
    with pytest.raises(RefusedError, match="chmod go="):
        open_platform(folder, now=clock())
    (folder / "machine.json").chmod(0o600)
    folder.chmod(0o755)
    with pytest.raises(RefusedError, match="chmod go="):
        open_platform(folder, now=clock())


def test_a_link_or_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    open_platform(tmp_path / "elsewhere", now=clock())
    for name in ("file", "link", "file/below"):
        with pytest.raises(RefusedError, match=f"{tmp_path / name}, .*not a directory"):
            open_platform(tmp_path / name, now=clock())


def test_a_clock_before_the_machine_was_made_is_an_error(tmp_path: Path) -> None:
    open_platform(tmp_path / "m", now=clock())
    with pytest.raises(FolderDamagedError, match="not-yet-valid"):
        open_platform(tmp_path / "m", now=clock(NOW - 30 * DAY))


def test_a_half_written_file_of_a_crash_does_no_harm(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.mkdir(mode=0o700)
    (folder / "machine.json.new").write_bytes(b"{")
    open_platform(folder, now=clock())
    assert not (folder / "machine.json.new").exists()


def test_two_that_open_it_first_agree_on_one_machine(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        roots = set(pool.map(lambda _: open_platform(tmp_path / "m").root_ca, range(8)))
    assert len(roots) == 1


def test_it_works_in_an_empty_environment(tmp_path: Path) -> None:
    program = (
        "from pathlib import Path\n"
        "from keyhouse.attestation import open_platform\n"
        f"print(open_platform('simulation', Path({str(tmp_path)!r})).kind)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], env={}, capture_output=True, check=True, timeout=60
    )
    assert done.stdout == b"simulation\n"
    assert done.stderr == b""
    assert [path.name for path in tmp_path.iterdir()] == ["simulation"]


def test_workload_on_the_machine_is_measured_as_itself_and_leaves_the_files(tmp_path: Path) -> None:
    who = Measurements(b"w" * 32, b"s" * 32, product_id=7, security_version=3)
    before = open_platform(tmp_path / "m", now=clock())
    files = {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()}

    workload = open_platform(tmp_path / "m", now=clock()).seen_by(who)

    assert workload.measurements == who
    assert workload.root_ca == before.root_ca
    verdict = Verifier(before.root_ca).verify(
        workload.quote(report_data(bytes(32))), before.collateral, NOW
    )
    assert (verdict.mrenclave, verdict.mrsigner) == (who.unique_id, who.signer_id)
    assert (verdict.isvprodid, verdict.isvsvn) == (7, 3)
    assert {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()} == files
    for policy in SealPolicy:
        assert workload.sealing_key(policy).reveal() != before.sealing_key(policy).reveal()


def test_collateral_says_of_the_machine_what_it_is_told_and_keeps_it(tmp_path: Path) -> None:
    quote = open_platform(tmp_path / "m", now=clock()).quote(report_data(bytes(32)))
    told = SimulatedTcb(TcbStatus.OUT_OF_DATE, ("SA-1",))

    first = open_platform(tmp_path / "m", now=clock(), tcb=told)
    again = open_platform(tmp_path / "m", now=clock(NOW + DAY))

    assert again.collateral == first.collateral
    verdict = Verifier(again.root_ca).verify(quote, again.collateral, NOW)
    assert (verdict.tcb_status, verdict.advisories) == (TcbStatus.OUT_OF_DATE, ("SA-1",))


def test_collateral_that_is_renewed_says_what_it_said_before(tmp_path: Path) -> None:
    told = SimulatedTcb(TcbStatus.SW_HARDENING_NEEDED, ("SA-1", "SA-2"))
    first = open_platform(tmp_path / "m", now=clock(), tcb=told)
    later = NOW + 500 * DAY

    renewed = open_platform(tmp_path / "m", now=clock(later))

    assert renewed.collateral != first.collateral
    quote = renewed.quote(report_data(bytes(32)))
    verdict = Verifier(renewed.root_ca).verify(quote, renewed.collateral, later)
    assert (verdict.tcb_status, verdict.advisories) == (told.status, told.advisories)


@pytest.mark.parametrize("days", [-40, 500])
def test_who_only_quotes_changes_no_file_whatever_the_clock(tmp_path: Path, days: int) -> None:
    made = NOW - 100 * DAY
    open_platform(tmp_path / "m", now=clock(made))
    told = SimulatedTcb(TcbStatus.OUT_OF_DATE)
    before = open_platform(tmp_path / "m", now=clock(), tcb=told)
    files = {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()}

    guest = open_platform(tmp_path / "m", now=clock(NOW + days * DAY), upkeep=False)

    assert {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()} == files
    quote = guest.quote(report_data(bytes(32)))
    verdict = Verifier(before.root_ca).verify(quote, before.collateral, NOW)
    assert verdict.tcb_status is TcbStatus.OUT_OF_DATE
