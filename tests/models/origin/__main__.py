"""Run the model, and print each search with the shortest traces."""

import sys

from models.origin.runs import RUNS, Run
from models.origin.search import Found, search


def report(run: Run, found: Found) -> str:
    """Return the result of a run as text, with the trace of each broken client."""
    extent = f"all within {found.depth} actions"
    if len(found.traces) == len(run.clients):
        extent = f"all are broken after {found.depth} actions"
    elif found.is_complete:
        extent = f"complete after {found.depth} actions"
    lines = [f"{run.name}: {run.about}", f"  {found.states} states, {extent}"]
    for client in run.clients:
        trace = found.traces.get(client)
        lines.append(f"  {'holds ' if trace is None else 'BROKEN'} {client}")
        lines += [f"           {step}" for step in trace or ()]
    if found.traces.keys() != run.broken:
        lines.append("  NOT AS EXPECTED")
    return "\n".join(lines)


def main(names: list[str]) -> int:
    """Run the named runs, or all; return 1 for an unexpected result."""
    is_expected = True
    for run in RUNS:
        if not names or run.name in names or run.name.partition("-")[0] in names:
            found = search(run.scene, run.rules, run.goal, run.clients)
            print(report(run, found), flush=True)  # noqa: T201 - this is a command
            is_expected = is_expected and found.traces.keys() == run.broken
    return 0 if is_expected else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
