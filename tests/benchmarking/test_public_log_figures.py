"""The figures of a small transparency log: each is taken, and its files and proofs are real."""

from pathlib import Path

from benchmarks.public_log.evidence import evidence_rows
from benchmarks.public_log.measured import COLUMN
from benchmarks.public_log.tree import log_rows


def test_a_small_log_is_measured_like_a_large_one(tmp_path: Path) -> None:
    rows = {row.what: row for row in log_rows(tmp_path, 1000, 1)}
    assert all(min(row.values[COLUMN]) > 0 for row in rows.values())
    content = sum(path.stat().st_size for path in tmp_path.rglob("entries/**/*") if path.is_file())
    assert rows["1,000 leaves: content of the files, MB"].of(COLUMN) > content / 1e6 > 0.1
    proofs = rows["1,000 leaves: proof of 10 hashes from cold tiles, ms"]
    assert len(proofs.values[COLUMN]) == 50
    assert rows["1,000 leaves: tree in the state, bytes"].finding == "met: at most 2,048"


def test_evidence_of_other_sizes_has_no_target() -> None:
    wanted, other = evidence_rows((28, 29), 1)
    assert wanted.finding.endswith("at most 100")
    assert (other.finding, other.of(COLUMN) > 0) == ("", True)
