"""Files that outsiders forged or shortened are refused, each for its reason."""

import pytest
from support.evidence_corpus import CORPUS, Recorded, pins_of

from keyhouse.evidence.bundle import read_evidence
from keyhouse.evidence.errors import EvidenceRefusedError
from keyhouse.evidence.verify import verify


@pytest.mark.parametrize("recorded", CORPUS, ids=lambda recorded: recorded.name)
def test_a_recorded_forgery_is_refused(recorded: Recorded) -> None:
    expected = CORPUS[recorded]

    with pytest.raises(EvidenceRefusedError) as refused:
        verify(read_evidence(recorded.raw), pins_of(recorded.folder))

    assert refused.value.reason == expected.step
    assert expected.reason in refused.value.message


def test_every_recorded_file_has_a_verdict() -> None:
    folders = {each.folder for each in CORPUS}
    files = {path.name for folder in folders for path in folder.glob("*.json.gz")}

    assert files == {f"{each.name}.json.gz" for each in CORPUS}
