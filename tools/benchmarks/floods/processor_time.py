"""The processor time of a process, exact to about a microsecond.

``/proc/<pid>/stat`` counts in ticks of 10 ms. Programs that share the processor do not change the
processor time, so figures of a busy machine remain comparable.

Source: sched-stats, kernel documentation, ``/proc/<pid>/schedstat``: the first figure is the
nanoseconds on a processor. Each thread has a separate file.
"""

from pathlib import Path

__all__ = ["processor_ms"]


def processor_ms(pid: int) -> float:
    """Return the processor time of all running threads of process ``pid``, in milliseconds."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text(encoding="ascii").split()[0]) for file in files) / 1e6
