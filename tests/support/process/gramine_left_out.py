"""Acceptance tests with assumptions about processes and hosts that are false in a library OS.

Used only with ``KEYHOUSE_TESTS_GRAMINE``: each such test is skipped, with a reason.
"""

from collections.abc import Collection
from typing import Final

__all__ = ["LEFT_OUT", "reason_of"]

_SIGNALS: Final = "only SIGTERM reaches a process under Gramine, and only after its start"
_LOCKS: Final = "locks are not visible outside: tests/acceptance/gramine has two enclaves"
_FULL: Final = "Gramine does not report a full disk as such: also 503, with another message"
_HOST: Final = "inspects the process from the host, where it is Gramine's"
_SEEN: Final = "Gramine has no figures of the process: metrics process_* are missing"
_TIMES: Final = "file times are always 0: a replaced bundle is read again only after a minute"
_TRACED: Final = "traces a process outside of Gramine: tests/acceptance/gramine traces inside"
_SOCKET: Final = "uses a Unix socket of the host for PostgreSQL, which Gramine does not support"
_ALONE: Final = "several replicas behind one address are refused under Gramine"

LEFT_OUT: Final = {
    "test_backup.py::test_a_restored_backup_is_served": _LOCKS,
    "test_confidential_vms.py::"
    "test_what_the_vendor_says_of_vms_counts_from_when_its_bundle_is_there": _TIMES,
    "test_doctor_network.py::test_a_coordinator_that_is_well": _LOCKS,
    "test_observability.py::test_all_that_is_described_is_scraped_with_its_kind_and_labels": _SEEN,
    "test_observability.py::test_coordinator_journal_and_changes_are_told": _SEEN,
    "test_store_commands.py::test_a_store_in_use_is_not_verified_and_its_process_is_named": _LOCKS,
    "test_disk.py::test_a_second_process_is_refused_and_told_of_the_first": _LOCKS,
    "test_disk.py::test_a_full_disk_stops_writes_but_not_reads_and_loses_nothing": _FULL,
    "test_one_address.py::test_one_of_two_is_killed_and_nothing_is_lost": _ALONE,
    "test_one_address.py::test_nothing_is_lost_when_the_journal_is_compacted_meanwhile": _ALONE,
    "test_one_address.py::test_replicas_end_with_their_parent_and_as_many_start_again": _ALONE,
    "test_one_address.py::test_the_parent_ends_when_no_replica_can_start": _ALONE,
    "test_stopping.py::test_what_was_sent_before_the_signal_is_answered_and_kept[SIGINT]": _SIGNALS,
    "test_process.py::test_hostile_variables_have_no_effect": _HOST,
    "test_process.py::test_the_process_leaves_no_core_file_and_makes_private_files": _HOST,
    "test_sign_quote_server.py::test_collateral_is_read_again_when_its_file_changes": _TIMES,
    "test_timed_kills.py::test_nothing_acknowledged_is_lost_by_a_kill_between_two_writes": _TRACED,
    "test_stopping.py::test_more_signals_change_nothing": _SIGNALS,
    "test_stopping.py::test_a_signal_during_the_start_stops_it_cleanly": _SIGNALS,
}
"""The reason to skip a test, by the end of the test's name."""


_DATABASE: Final = "postgres"
"""The fixture of tests with a database. Tests of ``gramine`` connect over TCP and TLS."""


def reason_of(test: str, fixtures: Collection[str]) -> str:
    """Return the reason to skip ``test``, which uses ``fixtures``; empty: do not skip."""
    reason = next((reason for end, reason in LEFT_OUT.items() if test.endswith(end)), "")
    if not reason and _DATABASE in fixtures and "acceptance/gramine/" not in test:
        return _SOCKET
    return reason
