"""The report on an evidence file as one HTML page, without scripts and external resources.

A compliance officer reads from the top: the result, the files, the gaps, then the history. Each gap
also appears at its leaf.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from keyhouse.base.version import VERSION
from keyhouse.evidence.gaps import Claim, Gap
from keyhouse.evidence.report import NEVER_PROVEN, ReportRow, in_words, rows_of, where_in
from keyhouse.evidence.verify import Verified
from keyhouse.transparency.leaf import object_name
from keyhouse.views.audit.facts import facts_of
from keyhouse.views.audit.inputs import Given, GivenFile
from keyhouse.views.audit.manifests import rules_in_words, update_changes
from keyhouse.views.audit.markup import Html, element, joined, listing
from keyhouse.views.audit.style import STYLE
from keyhouse.views.audit.timeline import time_line
from keyhouse.views.audit.traffic_light import light_of
from keyhouse.views.audit.trust_rows import trusted_rows

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


def page_of(verified: Verified, given: Given) -> bytes:
    """Return the page in UTF-8. All text from the file is escaped."""
    rows = rows_of(verified)
    title = f"Audit report: {verified.evidence.origin}"
    body = joined(
        element("h1", "Audit report"),
        element("p", "Deployment ", element("code", verified.evidence.origin), class_="soft"),
        element("p", _SUBJECT, class_="soft"),
        _light(verified),
        _facts(verified),
        element("h2", "This report"),
        _table(_report(verified, given)),
        element("h2", "Gaps: checks that could not be made"),
        _gaps(verified),
        *_claims(verified),
        element("h2", "Not proven by any evidence file"),
        listing(NEVER_PROVEN),
        element("h2", "Time line"),
        element("div", time_line(verified, rows), class_="line"),
        element("h2", "History"),
        element("p", _TIMES, class_="soft"),
        _history(rows, verified),
        element("h2", "Rules in force at the end"),
        *_rules(verified),
        *_trust(verified, given),
        element("h2", "Technical details"),
        _table(_details(verified)),
        element("h2", "Do not trust this page alone"),
        element("p", _ALONE),
    )
    head = joined(
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        Html('<meta name="viewport" content="width=device-width">'),
        element("title", title),
        Html(f"<style>{STYLE}</style>"),
    )
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'.encode()
    )


_SUBJECT: Final = (
    "A coordinator gives secrets to programs by the rules of a manifest. Each change is an entry of"
    " its log. This report says what the log proves."
)
_TIMES: Final = (
    "All times are UTC. The first time is the claim of the coordinator. The second is the time by"
    " which enough witnesses had seen the entry."
)
_ALONE: Final = (
    "Anyone who sends you this page can write anything into it. Compare the SHA-256 of your"
    " evidence file with the one above. Then verify the file yourself: with keyhouse evidence"
    " verify, or with another verifier by the public description of the format."
)


def _light(verified: Verified) -> Html:
    light = light_of(verified)
    texts = [element("p", light.sentence)]
    if verified.pins is not None and verified.witnessed is None:
        texts.append(element("p", "No witnesses: others may have been shown another history."))
    return element(
        "div",
        element("div", light.sign, class_="lamp", aria_hidden="true"),
        element("div", element("b", light.headline), *texts),
        class_=f"light {light.colour}",
    )


def _facts(verified: Verified) -> Html:
    cards = (element("li", element("b", each.figure), each.remark) for each in facts_of(verified))
    return element("ul", *cards, class_="cards")


def _report(verified: Verified, given: Given) -> Iterator[tuple[str, str]]:
    yield "Evidence file", _hashed(given.evidence)
    for log, file in zip(verified.logs[1:], reversed(given.before), strict=True):
        size = log.milestones[-1].checkpoint.size
        name = element("p", "The log ", element("code", log.evidence.origin), f", {size} entries:")
        yield "Log before", joined(name, _hashed(file))
    if verified.pins is not None:
        yield "Verified", f"{in_words(verified.pins.now)} UTC, by the clock of the verifier"
    yield "Verifier", f"Keyhouse {VERSION}"
    first, last = verified.entries[0].leaf, verified.witnessed
    began = "" if first is None else in_words(datetime.fromtimestamp(first.time // 1_000_000, UTC))
    end = "the claimed times" if last is None else f"{in_words(last)} UTC, seen by the witnesses"
    yield "Period", f"{began} UTC, claimed by the coordinator, to {end}"


def _details(verified: Verified) -> Iterator[tuple[str, str]]:
    evidence, last = verified.evidence, verified.milestones[-1]
    yield "Log", joined("origin ", element("code", evidence.origin))
    yield "Log key", element("code", evidence.log.key)
    yield "Root certificate", joined("SHA-256 ", element("code", object_name(evidence.root)))
    text = f"{last.checkpoint.size} entries, root of the tree "
    yield "Last checkpoint", joined(text, element("code", last.checkpoint.root.hex()))
    if verified.head is not None:
        code = verified.head.mrenclave.hex()
        shown = joined("code ", element("code", code)) if code else "a confidential VM"
        status = f", platform status {verified.head.tcb_status}"
        yield "Hardware at the end", joined(shown, status)


def _hashed(file: GivenFile) -> Html:
    return joined(f"{file.name}, SHA-256 ", element("code", file.sha256))


def _trust(verified: Verified, given: Given) -> Iterator[Html]:
    if verified.pins is None:
        return
    yield element("h2", "Trust of the auditor")
    yield element("p", "None of this comes from the evidence file.", class_="soft")
    yield _table(trusted_rows(verified, verified.pins, given))


def _table(rows: Iterator[tuple[str, str]]) -> Html:
    lines = (element("tr", element("th", name), element("td", value)) for name, value in rows)
    return element("table", *lines, class_="facts")


def _gaps(verified: Verified) -> Html:
    if not verified.every_gap:
        return element("p", "None. Every check was made.")
    refused = set(verified.not_allowed)
    head = element(
        "tr", *(element("th", each) for each in ("Gap", "Meaning", "Entries", "Allowed"))
    )
    lines = (
        element(
            "tr",
            element("td", element("code", gap), data_label="gap"),
            element("td", gap.text, data_label="meaning"),
            element("td", where_in(verified, log, numbers) or "the whole file", data_label=""),
            element("td", "NO" if gap in refused else "yes, by the auditor", data_label="allowed:"),
        )
        for log in verified.logs
        for gap, numbers in log.gaps.items()
    )
    return element("table", element("thead", head), element("tbody", *lines), class_="rows")


def _claims(verified: Verified) -> Iterator[Html]:
    claims = [
        f"{each.text} ({where_in(verified, log, numbers)})"
        for log in verified.logs
        for each, numbers in log.claims.items()
    ]
    if claims:
        yield element("h2", "Claims of the coordinator")
        yield listing(claims)


def _history(rows: Sequence[ReportRow], verified: Verified) -> Html:
    changes, refused = update_changes(verified), set(verified.not_allowed)
    head = element(
        "tr", *(element("th", each) for each in ("Entry", "Claimed", "Witnessed", "Event"))
    )
    lines = (_line(row, changes.get(row.first, []), refused) for row in rows)
    return element("table", element("thead", head), element("tbody", *lines), class_="rows")


def _line(row: ReportRow, changes: list[str], refused: set[Gap]) -> Html:
    marks = (_mark(each, "red" if each in refused else "amber") for each in row.gaps)
    claims = (_mark(each, "grey") for each in row.claims)
    notes = (element("span", each, class_="mark amber") for each in row.notes)
    shown = joined(
        element("strong" if row.notes else "span", row.event), listing(changes, "changes")
    )
    return element(
        "tr",
        element("td", row.numbers, class_="number", data_label="entry"),
        element("td", in_words(row.claimed), class_="time", data_label="claimed"),
        element("td", in_words(row.witnessed), class_="time", data_label="witnessed"),
        element("td", shown, *notes, *marks, *claims),
        id=f"entry-{row.first}",
    )


def _mark(each: Gap | Claim, colour: str) -> Html:
    word = "claim: " if isinstance(each, Claim) else f"{each}: "
    return element("span", element("b", word), each.text, class_=f"mark {colour}")


def _rules(verified: Verified) -> Iterator[Html]:
    final = verified.entries[-1].after
    raw = verified.evidence.objects.get(final.manifest)
    if raw is None:
        yield element(
            "p", "The log does not publish the manifest in force, so its rules are not known."
        )
        return
    yield element("p", "By the manifest ", element("code", final.manifest), class_="soft")
    rules = rules_in_words(raw, final.versions)
    yield _table((name, listing(texts)) for name, texts in rules.items())
