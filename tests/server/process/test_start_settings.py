"""What a start is told about its first manifest, and about checking only."""

from pathlib import Path

import pytest

from keyhouse.base.process.flags import SettingRefusedError
from keyhouse.server.process.settings import Replica, read_settings
from keyhouse.server.process.supervisor import SETTLED, next_pause, require_several_processes


def test_a_recovery_file_without_a_startup_manifest_is_named_in_a_note() -> None:
    (note,) = read_settings(["--startup-recovery-file", "f"], {}).notes

    assert "--startup-recovery-file has no effect without --startup-manifest" in note


@pytest.mark.parametrize(
    "text",
    ["1", "00" * 31, "00" * 33, "0x" + "00" * 31, "gg" * 32, "00" * 32 + "\n", "\u0660" * 64],
)
def test_what_is_no_fingerprint_is_refused(text: str) -> None:
    with pytest.raises(SettingRefusedError, match="--claim-fingerprint"):
        read_settings(["--claim-fingerprint", text], {})


def test_a_fingerprint_is_taken_in_any_case_of_letters() -> None:
    found = read_settings(["--claim-fingerprint", "AbcdeF01" * 8], {})

    assert found.claim_fingerprint == "abcdef01" * 8


def test_an_empty_claim_is_refused_and_does_not_mean_any_manifest() -> None:
    with pytest.raises(SettingRefusedError, match="--claim-fingerprint"):
        read_settings(["--claim-fingerprint", ""], {})


def test_json_without_a_check_is_refused() -> None:
    with pytest.raises(SettingRefusedError, match="--json"):
        read_settings(["--json"], {})
    found = read_settings(["--check-config", "--json"], {})
    assert (found.check_config, found.json) == (True, True)


@pytest.mark.parametrize("text", ["0", "-1", "65", "100", "2.0", " 2", "\u0662", "9" * 9000])
def test_an_invalid_number_of_replicas_is_refused(text: str) -> None:
    with pytest.raises(SettingRefusedError, match="--replicas"):
        read_settings(["--replicas", text, "--store", "postgresql://user@host/d"], {})


def test_several_replicas_need_a_store_and_ports_for_their_metrics() -> None:
    with pytest.raises(SettingRefusedError, match=r"--replicas .*--store"):
        read_settings(["--replicas", "2"], {})
    shared = ["--store", "postgresql://user@host/d", "--replicas", "2", "--metrics-addr"]
    assert read_settings([*shared, ":65534"], {}).replicas == 2
    with pytest.raises(SettingRefusedError, match="--metrics-addr"):
        read_settings([*shared, ":65535"], {})


def test_each_replica_has_a_directory_and_a_port_for_metrics_of_its_own() -> None:
    shared = ["--store", "postgresql://user@host/d", "--replicas", "2", "--data-dir", "/d"]
    found = read_settings([*shared, "--metrics-addr", "127.0.0.1:9090"], {})
    own = [found.of_replica(Replica(number)) for number in (1, 2)]
    assert [each.state_dir for each in own] == [Path("/d"), Path("/d/replica-2")]
    assert [each.metrics_addr for each in own] == [("127.0.0.1", 9090), ("127.0.0.1", 9091)]
    (off, free) = (read_settings([*shared, *more], {}) for more in ([], ["--metrics-addr", ":0"]))
    assert off.of_replica(Replica(2)).metrics_addr is None
    assert free.of_replica(Replica(2)).metrics_addr == ("", 0)


def test_several_replicas_are_refused_under_gramine() -> None:
    def exists(path: Path) -> bool:
        return str(path) == "/dev/attestation"

    with pytest.raises(SettingRefusedError, match="Gramine"):
        require_several_processes(exists)
    require_several_processes(lambda _: False)


def test_a_replica_that_keeps_ending_is_started_again_less_and_less_often() -> None:
    pauses, last = [], None
    for _ in range(7):
        last = next_pause(last, uptime=SETTLED - 1)
        pauses.append(last)
    assert pauses == [1, 2, 4, 8, 16, 30, 30]
    assert next_pause(last, uptime=SETTLED) == 1
