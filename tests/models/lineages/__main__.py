"""Run the model, and print each search with the shortest sequences."""

import sys
from time import process_time

from models.lineages.invariants import INVARIANTS
from models.lineages.rules import PRODUCT
from models.lineages.runs import FAULTS, SCENES, Fault
from models.lineages.search import search


def main(words: list[str]) -> int:
    """Run the searches with one of these words in the name, or all. Return 1 for a wrong result."""
    wrong, texts = 0, {each.name: each.text for each in INVARIANTS}
    runs = [Fault(name, scene, PRODUCT, "") for name, scene in SCENES.items()]
    for run in (*runs, *FAULTS):
        if words and not any(word in run.name for word in words):
            continue
        begin = process_time()
        found = search(run.scene, run.rules, run.breaks)
        seconds = process_time() - begin
        lines = [f"{run.name}: {found.worlds} worlds, {found.actions} actions, {seconds:.1f} s"]
        for name, trace in found.traces.items():
            lines += [f"  BROKEN: {texts[name]}", *(f"    {step}" for step in trace)]
        if (run.breaks not in found.traces) if run.breaks else found.traces:
            wrong += 1
            lines.append("  NOT AS EXPECTED")
        print("\n".join(lines), flush=True)  # noqa: T201 this is a command
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
