"""A copy of the tree supports a new kind of evidence, after changes in the files of the table."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

SOURCES: Final = Path(__file__).parents[3] / "src" / "keyhouse"

NEW: Final = {
    "wire/kinds/toy.py": """
from typing import ClassVar
import msgspec
from keyhouse.wire.kinds.identity import VmIdentity

class ToyIdentity(VmIdentity, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    digest: str = msgspec.field(default="", name="Digest")
    host: str = msgspec.field(default="", name="Host")
    FIELD: ClassVar = "TOY"
    SIZES: ClassVar = {"Digest": 4, "Host": 2}
    FAULTS: ClassVar = {"Digest": lambda value: "" if any(value) else "it is all zeros"}
    BITS: ClassVar = {}
    SET_BY_THE_HOST: ClassVar = ("Host",)
    STATES_TCB: ClassVar = False
""",
    "attestation/kinds/toy.py": """
from datetime import UTC, datetime
import msgspec
from keyhouse.attestation.collateral.facts import Mark
from keyhouse.attestation.errors import QuoteProblem, refusal
from keyhouse.attestation.quote.report import QuoteForm, Tee
from keyhouse.attestation.quote.report import Report, VmMeasurements
from keyhouse.attestation.quote.report import Freshness, Verdict
from keyhouse.base.byte_reader import ByteReader
from keyhouse.wire.kinds.toy import ToyIdentity

class ToyCollateral(msgspec.Struct, frozen=True):
    key: bytes

class ToyMeasurements(VmMeasurements, frozen=True, kw_only=True):
    digest: bytes
    host: bytes
    @property
    def identity(self): return ToyIdentity(self.digest.hex(), self.host.hex())
    @property
    def records(self): return {"values": (("Digest", self.digest), ("Host", self.host))}
    def require_sound(self): pass

versions = (int.from_bytes(b"TOY1", "little"),)
def read_form(raw):
    fields = ByteReader(raw, "little")
    fields.read(4 + 4 + 2 + 64 + 8, "report")
    fields.finish("report")
    return QuoteForm(raw, Tee.TOY, b"")
def read_report(form):
    raw = form.raw
    vm = ToyMeasurements(digest=raw[4:8], host=raw[8:10])
    return Report(raw[10:74], debug=False, measurements=vm)
def verify(form, collateral, anchors, at):
    if form.raw[74:] != collateral.key:
        raise refusal(QuoteProblem.SIGNATURE)
    report = read_report(form)
    always = datetime(2000, 1, 1, tzinfo=UTC)
    return Verdict(**msgspec.structs.asdict(report), tee=form.tee, tcb_status=None, advisories=(),
                   tcb_date=None, fmspc=b"", ppid=b"toy machine",
                   freshness=Freshness(0, 0, 0, always, always))
def marks(verdict, collateral): return {"toy": Mark(1, 2)}
ROW = ("versions", "read_form", "read_report", "ToyCollateral", "verify", "marks")
""",
}

CHANGED: Final = {
    "wire/kinds/__init__.py": (
        ("from keyhouse.wire.kinds.tdx", "from keyhouse.wire.kinds.toy import ToyIdentity\n"),
        ("(TdxIdentity, SnpIdentity)", "(TdxIdentity, SnpIdentity, ToyIdentity)"),
    ),
    "wire/kinds/named_vm.py": (
        ("from keyhouse.wire.kinds.tdx", "from keyhouse.wire.kinds.toy import ToyIdentity\n"),
        (
            "    @property\n    def vms",
            '    toy: ToyIdentity | None = msgspec.field(default=None, name="TOY")\n\n',
        ),
    ),
    "attestation/quote/report.py": (('    SNP = "snp"', '    TOY = "toy"\n'),),
    "attestation/kinds/table.py": (
        ("from keyhouse.attestation.quote.report", "from keyhouse.attestation.kinds import toy\n"),
        (
            "    Tee.SNP: EvidenceKind(",
            "    Tee.TOY: EvidenceKind(*(getattr(toy, name) for name in toy.ROW)),\n",
        ),
    ),
    "manifest/source/schema_fields.py": (
        ("from keyhouse.wire.kinds.tdx", "from keyhouse.wire.kinds.toy import ToyIdentity\n"),
        ('            "TDX": SchemaField(', '            "TOY": SchemaField("A toy."),\n'),
        (
            "    TdxIdentity: Shape(",
            '    ToyIdentity: Shape("A toy.", {f: SchemaField(f) for f in ("Digest", "Host")}),\n',
        ),
    ),
}
"""For each file: a text and its replacement, or whole lines to insert before the text."""

PROGRAM: Final = """
import json
from datetime import UTC, datetime
import msgspec
from keyhouse.attestation import IdentityRefusedError, QuoteRefusedError, Tee, Verifier
from keyhouse.attestation import INTEL_SGX_ROOT, read_form
from keyhouse.attestation.appraisal import mismatches
from keyhouse.attestation.identity import ExpectedIdentity
from keyhouse.attestation.kinds.table import KINDS
from keyhouse.attestation.kinds.toy import ToyCollateral
from keyhouse.attestation.origin.rule import code_of
from keyhouse.base.errors import InvalidError
from keyhouse.coordinator.core.update_log import AuditTrail
from keyhouse.coordinator.core.events import Activated, Event, MarblesActivated
from keyhouse.journal.chain import Codec
from keyhouse.manifest.check import check
from keyhouse.manifest.source.schema import manifest_schema
from keyhouse.server.services.activation_outcomes import _measured
from keyhouse.wire.client_api import RefusedActivation

at = datetime(2026, 6, 1, tzinfo=UTC)
quote = b"TOY1" + b"DIGS" + b"HO" + bytes(64) + b"a secret"
verdict = Verifier(INTEL_SGX_ROOT).verify(quote, ToyCollateral(b"a secret"), at)
assert verdict.tee is Tee.TOY and verdict.tee.in_words == "a confidential VM (TOY)"
for bad in (quote[:-1] + b"!", quote + b"!", quote[:-1]):
    try:
        Verifier(INTEL_SGX_ROOT).verify(bad, ToyCollateral(b"a secret"), at)
    except QuoteRefusedError:
        continue
    raise AssertionError(bad)
assert KINDS[Tee.TOY].marks(verdict, None)["toy"].number == 1

def packages(**fields):
    text = json.dumps({"Packages": {"vm": fields}, "Marbles": {"web": {"Package": "vm"}}})
    checked = check(text.encode(), now=at)
    return checked.manifest.packages["vm"], [str(each) for each in checked.warnings]

package, warnings = packages(TOY={"Digest": b"DIGS".hex().upper()})
assert mismatches(verdict, package) == ()
assert len(warnings) == 1 and "Packages.vm.TOY" in warnings[0] and "Host" in warnings[0]
other, _ = packages(TOY={"Digest": "01020304", "Host": "0000"})
assert [each.rule for each in mismatches(verdict, other)] == ["TOY.Digest", "TOY.Host"]
enclave, _ = packages(UniqueID="01" * 32)
assert [each.rule for each in mismatches(verdict, enclave)] == ["AcceptedTCBStatuses", "Tee"]
for wrong in ({"TOY": {}}, {"TOY": {"Digest": "00000000"}}, {"TOY": {"Digest": "01"}},
              {"TOY": {"Digest": "01020304"}, "UniqueID": "01" * 32},
              {"TOY": {"Digest": "01020304"}, "AcceptedTCBStatuses": ["OutOfDate"]}):
    try:
        packages(**wrong)
    except InvalidError:
        continue
    raise AssertionError(wrong)
assert "TOY" in json.dumps(manifest_schema())
assert ExpectedIdentity(toy=package.toy).vm == package.toy

event = MarblesActivated((Activated(time=1, marble_type="web", uuid="u", names=(), counted=False,
                                    quoted=True, **msgspec.structs.asdict(verdict.measured)),))
codec = Codec(Event)
assert codec._decoder.decode(codec.encode_checked(event)) == event
trail = AuditTrail()
trail.extend(event)
(line,) = trail.view().lines(0, 9)
assert json.loads(line)["values"] == [["Digest", b"DIGS".hex()], ["Host", b"HO".hex()]]
refused = _measured(RefusedActivation(marble_type="web", code="c", reason="r"), verdict)
assert refused.values == (("Digest", b"DIGS".hex()), ("Host", b"HO".hex()))
assert code_of(verdict, "1").tee == "toy"
print("ok")
"""


def _learn(folder: Path) -> None:
    for name, text in NEW.items():
        (folder / name).write_text(text)
    for name, changes in CHANGED.items():
        text = (folder / name).read_text()
        for before, after in changes:
            assert text.count(before) == 1, (name, before)
            text = text.replace(before, after + before if after.endswith("\n") else after)
        (folder / name).write_text(text)


def test_a_kind_is_learned_in_seven_files(tmp_path: Path) -> None:
    """The files define manifest fields, verification, admission, events, audit, refusal, schema."""
    shutil.copytree(SOURCES, tmp_path / "keyhouse", ignore=shutil.ignore_patterns("__pycache__"))
    _learn(tmp_path / "keyhouse")

    ended = subprocess.run(
        [sys.executable, "-B", "-c", PROGRAM],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (ended.stdout, ended.stderr) == ("ok\n", "")
    assert len(NEW) + len(CHANGED) == 7


# Texts for people, or the simulated machine, whose functions have names for the kinds.
_NAMED: Final = {
    "cli/attest/claims.py",
    "cli/attest/events.py",
    "cli/doctor/hardware/quotes.py",
    "testing/identities.py",
}
_ROOMS: Final = ("wire/kinds/", "attestation/kinds/", "attestation/platforms/", "manifest/source/")
_KINDS: Final = frozenset({"TdxIdentity", "SnpIdentity", "TdMeasurements", "SnpMeasurements"})


def test_no_other_module_names_a_kind() -> None:
    found = set()
    for path in SOURCES.rglob("*.py"):
        name = path.relative_to(SOURCES).as_posix()
        if name in _NAMED or name.startswith(_ROOMS):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Name) and node.id in _KINDS:
                found.add((name, node.id))
            if isinstance(node, ast.Attribute) and ast.unparse(node) in {"Tee.TDX", "Tee.SNP"}:
                found.add((name, node.attr))
    assert found <= {("attestation/collateral/facts.py", "TDX")}
