"""Checks and generated values before a decision."""

import json
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from support.samples.deployment import NOW, moment
from support.samples.manifests import changed, full

from keyhouse.authority import make_coordinator_keys
from keyhouse.base.errors import InvalidError
from keyhouse.coordinator import check_fully
from keyhouse.coordinator.core.state import AcceptingManifest
from keyhouse.coordinator.prepare import prepare_manifest

KEYS = make_coordinator_keys(
    dns_names=["coordinator.example"],
    ip_addresses=[],
    curve="P-256",
    now=moment(NOW),
    simulated=True,
)
AT: datetime = moment(NOW)


def _problems(change: Callable[[Any], object]) -> dict[str, str]:
    with pytest.raises(InvalidError) as refusal:
        check_fully(changed(change), keys=KEYS, now=AT)
    return {problem.at: problem.problem for problem in refusal.value.problems}


def _secret(name: str, **fields: Any) -> Callable[[Any], object]:
    return lambda document: document["Secrets"][name].update(fields)


def test_the_full_sample_is_prepared_with_everything_it_asks_for() -> None:
    raw = json.dumps(full()).encode()
    command = prepare_manifest(AcceptingManifest(KEYS), raw, now=NOW)
    assert set(command.secrets) == {"clusterKey", "apiCert", "edCert"}  # shared and generated
    assert [holder.name for holder in command.recovery.holders] == ["rk1", "rk2", "rk3"]
    assert command.recovery.effective_threshold == 2
    assert len(command.dek) == 32


def test_a_certificate_may_not_take_the_coordinators_name() -> None:
    def take(document: Any) -> None:
        document["Secrets"]["apiCert"]["Cert"]["DNSNames"] = ["coordinator.example"]

    assert list(_problems(take)) == ["Secrets.apiCert.Cert.DNSNames[0]"]


def test_rules_and_trial_report_together() -> None:
    def break_both(document: Any) -> None:
        document["Marbles"]["web"]["Package"] = "missing"
        document["Secrets"]["apiCert"]["Cert"]["Subject"]["CommonName"] = "x" * 65

    assert list(_problems(break_both)) == [
        "Marbles.web.Package",
        "Secrets.apiCert.Cert.Subject.CommonName",
    ]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (_secret("partnerKey", Private="AAAA"), "Secrets.partnerKey.Private"),
        (_secret("partnerCert", Private="AAAA"), "Secrets.partnerCert.Cert"),
    ],
    ids=["a key of the wrong size", "a private key without certificate"],
)
def test_initial_values_are_judged_like_uploads(
    change: Callable[[Any], object], place: str
) -> None:
    assert place in _problems(change)


def test_an_initial_value_is_taken() -> None:
    raw = changed(_secret("partnerKey", Private="AAECAwQFBgcICQoLDA0ODw=="))
    command = prepare_manifest(AcceptingManifest(KEYS), raw, now=NOW)
    assert command.secrets["partnerKey"].private.reveal() == bytes(range(16))


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            found += _paths(inner, (*path, key))
    return found


PATHS = _paths(full())[1:]
ODD = st.sampled_from(
    [None, True, -1, 0, 1, 2**64, 1.5, "", "x", "cert-rsa", "9999-99-99", [], [None], {}, {"a": 1}]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PATHS), ODD), min_size=1, max_size=3))
def test_whatever_is_put_anywhere_gives_findings_or_a_manifest(
    changes: list[tuple[tuple[Any, ...], Any]],
) -> None:
    document = full()
    for path, value in changes:
        with suppress(KeyError, IndexError, TypeError):  # an earlier change may have removed it
            place: Any = document
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = deepcopy(value)  # a value may be put into an earlier value
    with suppress(InvalidError):  # all other exceptions fail the test
        check_fully(json.dumps(document).encode(), keys=KEYS, now=AT)
