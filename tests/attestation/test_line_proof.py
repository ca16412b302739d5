"""Proven lines: quotes of accepted code prove each entry from the first entry on."""

import hashlib
from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from support.samples.machines import OTHER_CODE, PPIDS, platform, verified

from keyhouse.attestation import Measurements, Verdict, read_form
from keyhouse.attestation.kinds.table import read_report
from keyhouse.attestation.origin.rule import (
    AcceptedCode,
    Judge,
    OriginRefusedError,
    OriginRule,
    code_of,
    require_line,
)
from keyhouse.attestation.quote.binding import entry_report_data, report_data
from keyhouse.transparency.line import (
    Adopted,
    Created,
    Entry,
    ManifestEntry,
    RootLine,
    encode_entry,
    hash_of,
    read_line,
)
from keyhouse_simulation import COORDINATOR
from keyhouse_simulation.parameters import QuotedEnclave

ROOT = b"the root certificate"
ROOT_HASH = hashlib.sha256(ROOT).hexdigest()
TIME = 1_790_000_000_000_000
FIRST, SECOND, THIRD = ("01" * 32, "02" * 32, "03" * 32)
STRANGER = Measurements(b"CODE OF ANOTHER SIGNER, STRANGER", b"s" * 32, 7, 1)
OWN = read_report(read_form(platform().quote(report_data(bytes(32)))))
OWN_ALONE = AcceptedCode(signer=False)
OTHERS = AcceptedCode(signer=False, unique_ids=(OTHER_CODE.unique_id.hex(),))


def written(*by: Measurements, adopted: bool = False) -> tuple[RootLine, dict[int, Verdict]]:
    """Return a line with an entry by each code, and the verdicts of the quotes by entry."""
    raw: list[bytes] = []
    judged: dict[int, Verdict] = {}
    for number, (code, name) in enumerate(zip(by, (FIRST, SECOND, THIRD), strict=False)):
        on = platform(enclave=QuotedEnclave(measurements=code))
        said = code_of(read_report(read_form(on.quote(report_data(bytes(32))))), "0.2.0")
        before = hash_of(raw[-1]).hex() if raw else ""
        entry: Entry = ManifestEntry(previous=before, time=TIME, manifest=name, code=said)
        if not raw:
            kind = Adopted if adopted else Created
            entry = kind(previous="", time=TIME, root=ROOT_HASH, manifest=name, code=said)
        raw.append(encode_entry(entry))
        if not (adopted and number == 0):
            judged[number] = verified(on.quote(entry_report_data(ROOT, hash_of(raw[-1]))))
    return read_line(raw, ROOT), judged


def judge(code: AcceptedCode, admitting: Sequence[str] = (), adopted: str = "") -> Judge:
    """Return a judge that accepts ``code``; the manifests ``admitting`` admit all code."""
    return Judge(OriginRule(code, adopted=adopted), OWN, lambda name, _: name in admitting)


@pytest.mark.parametrize("code", [OWN_ALONE, AcceptedCode(), AcceptedCode(own=False)])
def test_a_line_of_the_own_code_is_proven(code: AcceptedCode) -> None:
    line, judged = written(COORDINATOR, COORDINATOR)
    require_line(line, ROOT, judged, judge(code))


def test_a_line_of_other_code_is_proven_only_if_a_setting_accepts_that_code() -> None:
    line, judged = written(OTHER_CODE, COORDINATOR)
    require_line(line, ROOT, judged, judge(OTHERS))
    require_line(line, ROOT, judged, judge(AcceptedCode()))  # the own signer and product
    for code in (OWN_ALONE, AcceptedCode(least_svn=2)):
        with pytest.raises(
            OriginRefusedError, match=f"made by UniqueID:{OTHER_CODE.unique_id.hex()}"
        ):
            require_line(line, ROOT, judged, judge(code))
    line, judged = written(STRANGER, COORDINATOR)
    with pytest.raises(OriginRefusedError, match=f"made by UniqueID:{STRANGER.unique_id.hex()}"):
        require_line(line, ROOT, judged, judge(AcceptedCode(), admitting=[FIRST, SECOND]))


def test_an_earlier_manifest_admits_the_code_of_a_later_one() -> None:
    line, judged = written(COORDINATOR, COORDINATOR, STRANGER)
    for admitting in ([FIRST], [SECOND]):
        require_line(line, ROOT, judged, judge(OWN_ALONE, admitting=admitting))


def test_no_manifest_admits_the_code_that_made_it_take_effect() -> None:
    line, judged = written(COORDINATOR, STRANGER, COORDINATOR)
    for admitting in ([SECOND], [THIRD], []):
        with pytest.raises(OriginRefusedError, match=f"{SECOND} .*{STRANGER.unique_id.hex()}"):
            require_line(line, ROOT, judged, judge(OWN_ALONE, admitting=admitting))


def test_each_manifest_needs_a_quote_over_its_own_entry() -> None:
    line, judged = written(COORDINATOR, COORDINATOR)
    for number in judged:
        missing = {other: found for other, found in judged.items() if other != number}
        with pytest.raises(OriginRefusedError, match="is missing"):
            require_line(line, ROOT, missing, judge(OWN_ALONE))
        played_back = judged | {number: judged[1 - number]}
        with pytest.raises(OriginRefusedError, match="another entry"):
            require_line(line, ROOT, played_back, judge(OWN_ALONE))
    require_line(line, ROOT, {1: judged[1]}, judge(OWN_ALONE), proven=1)
    require_line(line, ROOT, {}, judge(OWN_ALONE), proven=2)


def test_an_entry_names_the_code_of_its_quote() -> None:
    line, judged = written(COORDINATOR)
    _, others = written(OTHER_CODE)
    bound = replace(others[0], report_data=judged[0].report_data)
    with pytest.raises(OriginRefusedError, match="different code"):
        require_line(line, ROOT, {0: bound}, judge(AcceptedCode()))


def test_an_adopted_root_needs_a_rule_that_names_it() -> None:
    line, judged = written(COORDINATOR, COORDINATOR, adopted=True)
    require_line(line, ROOT, judged, judge(OWN_ALONE, adopted=ROOT_HASH))
    for adopted in ("", "00" * 32):
        with pytest.raises(OriginRefusedError, match=f"--adopt-root {ROOT_HASH}|does not name it"):
            require_line(line, ROOT, judged, judge(OWN_ALONE, adopted=adopted), proven=2)


def test_platforms_and_statuses_that_are_not_accepted_are_refused() -> None:
    _, judged = written(COORDINATOR)
    OriginRule().require_platform(judged[0])
    OriginRule(platforms=(PPIDS[0].hex(),)).require_platform(judged[0])
    with pytest.raises(OriginRefusedError, match="--origin-platforms"):
        OriginRule(platforms=(PPIDS[1].hex(),)).require_platform(judged[0])
    outdated = replace(judged[0], tcb_status="OutOfDate")
    with pytest.raises(OriginRefusedError, match=r"OutOfDate.*--origin-tcb"):
        OriginRule().require_platform(outdated)
    OriginRule(statuses=("OutOfDate",)).require_platform(outdated)


def test_each_setting_has_a_digest_of_its_own() -> None:
    rules = (
        OriginRule(),
        OriginRule(OWN_ALONE),
        OriginRule(OTHERS),
        OriginRule(AcceptedCode(least_svn=1)),
        OriginRule(statuses=("OutOfDate",)),
        OriginRule(current=True),
        OriginRule(platforms=("00" * 16,)),
        OriginRule(adopted="00" * 32),
    )
    assert len({rule.digest for rule in rules}) == len(rules)
