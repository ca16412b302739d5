"""What the acceptance tests hold of a process on its host, and a library OS has otherwise.

Used with ``KEYHOUSE_TESTS_GRAMINE`` only: each is skipped, with its reason.
"""

from typing import Final

__all__ = ["LEFT_OUT", "reason_of"]

_SIGNALS: Final = "only SIGTERM reaches a process under Gramine, once it runs"
_LOCKS: Final = "locks are not seen outside: tests/acceptance/gramine has two enclaves"
_FULL: Final = "Gramine does not say that a disk is full: 503 as well, in other words"

LEFT_OUT: Final = {
    "test_disk.py::test_a_second_process_is_refused_and_told_of_the_first": _LOCKS,
    "test_disk.py::test_a_full_disk_stops_writes_but_not_reads_and_loses_nothing": _FULL,
    "test_stopping.py::test_what_was_sent_before_the_signal_is_answered_and_kept[SIGINT]": _SIGNALS,
    "test_stopping.py::test_more_signals_change_nothing": _SIGNALS,
    "test_stopping.py::test_a_signal_during_the_start_stops_it_cleanly": _SIGNALS,
}
"""The end of a test's name, and why it makes no sense there."""


def reason_of(test: str) -> str:
    """Return why ``test`` is left out; empty if it is not."""
    return next((reason for end, reason in LEFT_OUT.items() if test.endswith(end)), "")
