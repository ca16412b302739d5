"""``Renewal`` of a marble type, ``Config.Trust``, and the right to revoke workloads."""

from typing import Any

import pytest
from support.samples.manifests import changed, fully_checked

from keyhouse.base.errors import InvalidError
from keyhouse.manifest import OnEnd, Renewal, decode
from keyhouse.manifest.model import OnChange


def with_renewal(given: object, **marble: Any) -> bytes:
    """Return a manifest whose only marble type has the renewal ``given``."""

    def change(document: dict[str, Any]) -> None:
        (package, *_) = document["Packages"]
        document["Marbles"] = {"web": {"Package": package, "Renewal": given, **marble}}

    return changed(change)


def problems(raw: bytes) -> set[str]:
    """Return the places of all problems."""
    with pytest.raises(InvalidError) as refused:
        fully_checked(raw)
    return {problem.at for problem in refused.value.problems}


def test_without_the_section_nothing_renews() -> None:
    for raw in (changed(lambda _: None), with_renewal(None)):
        manifest = decode(raw)
        assert not manifest.is_living
        assert all(marble.renewal is None for marble in manifest.marbles.values())


def test_an_empty_section_has_the_defaults() -> None:
    for given in ({}, {"ValidMinutes": 0, "OnEnd": "", "OnChange": {}}):
        raw = with_renewal(given)
        assert [each for each in fully_checked(raw).warnings if "Renewal" in each.at] == []
        assert decode(raw).marbles["web"].renewal == Renewal(60, OnChange(), OnEnd.KEEP.value)
        assert decode(raw).is_living


@pytest.mark.parametrize(
    "given",
    [{"Signal": "HUP"}, {"Command": ["/bin/nginx", "-s", "reload"]}, {"Restart": True}],
    ids=["signal", "command", "restart"],
)
def test_each_kind_of_reload_is_accepted(given: dict[str, Any]) -> None:
    renewal = decode(with_renewal({"OnChange": given, "OnEnd": "Stop"})).marbles["web"].renewal
    assert renewal is not None
    assert renewal.on_end == OnEnd.STOP
    assert renewal.on_change != OnChange()


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"ValidMinutes": 9}, "ValidMinutes"),
        ({"ValidMinutes": 10_081}, "ValidMinutes"),
        ({"OnEnd": "Later"}, "OnEnd"),
        ({"OnChange": {"Signal": "KILL"}}, "OnChange.Signal"),
        ({"OnChange": {"Command": ["nginx"]}}, "OnChange.Command[0]"),
        ({"OnChange": {"Command": ["/nginx", "a\0b"]}}, "OnChange.Command[1]"),
        ({"OnChange": {"Signal": "HUP", "Restart": True}}, "OnChange"),
        ({"ValidHours": 1}, "ValidHours"),
    ],
    ids=str,
)
def test_another_value_is_refused_at_its_place(given: dict[str, Any], place: str) -> None:
    assert problems(with_renewal(given)) == {f"Marbles.web.Renewal.{place}"}


def test_a_long_validity_is_a_warning() -> None:
    warnings = fully_checked(with_renewal({"ValidMinutes": 61})).warnings
    assert "Marbles.web.Renewal.ValidMinutes" in {each.at for each in warnings}


def test_a_certificate_of_each_marble_is_refused() -> None:
    parameters = {"Files": {"/c": "{{ pem .Secrets.own.Cert }}"}}

    def change(document: dict[str, Any]) -> None:
        (package, *_) = document["Packages"]
        document["Secrets"] = {"own": {"Type": "cert-ecdsa", "Size": 256}}
        document["Marbles"] = {
            "web": {"Package": package, "Renewal": {}, "Parameters": parameters},
        }
        for section in ("Roles", "Users", "TLS", "Config"):
            document[section] = {}

    assert problems(changed(change)) == {"Marbles.web.Parameters"}


def test_tags_of_tls_are_refused_beside_renewal() -> None:
    def change(document: dict[str, Any]) -> None:
        (package, *_) = document["Packages"]
        document["TLS"] = {"tag": {"Incoming": [{"Port": "1"}]}}
        document["Marbles"] = {"web": {"Package": package, "Renewal": {}, "TLS": ["tag"]}}

    assert problems(changed(change)) == {"Marbles.web.Renewal"}


@pytest.mark.parametrize("hours", [0, 720])
def test_an_overlap_has_a_range(hours: int) -> None:
    def change(document: dict[str, Any]) -> None:
        document["Config"] = {"Trust": {"OverlapHours": hours}}

    trust = decode(changed(change)).config.trust
    assert trust is not None
    assert trust.overlap_hours == hours


def test_a_longer_overlap_is_refused() -> None:
    def change(document: dict[str, Any]) -> None:
        document["Config"] = {"Trust": {"OverlapHours": 721}}

    assert problems(changed(change)) == {"Config.Trust.OverlapHours"}


def test_an_overlap_without_renewals_is_a_warning() -> None:
    def change(document: dict[str, Any]) -> None:
        document["Config"] = {"Trust": {"OverlapHours": 1}}

    warnings = fully_checked(changed(change)).warnings
    assert "Config.Trust.OverlapHours" in {each.at for each in warnings}


def test_a_role_on_marbles_revokes_only_and_names_marble_types() -> None:
    def change(document: dict[str, Any]) -> None:
        document["Roles"]["guard"] = {
            "ResourceType": "Marbles",
            "ResourceNames": [*document["Marbles"], "nothing"],
            "Actions": ["RevokeWorkload", "UpdateManifest"],
        }

    names = len(decode(changed(lambda _: None)).marbles)
    assert problems(changed(change)) == {
        f"Roles.guard.ResourceNames[{names}]",
        "Roles.guard.Actions[1]",
    }


FILES = {"Parameters": {"Files": {"/tls.pem": "{{ pem .MarbleRun.MarbleCert.Cert }}"}}}
ENV = {"Parameters": {"Env": {"TOKEN": "text"}}}


@pytest.mark.parametrize(
    ("on_change", "parameters", "warning"),
    [
        ({"Signal": "HUP"}, {}, "has no effect without Files: a running program"),
        ({"Signal": "HUP"}, ENV, "has no effect without Files: a running program"),
        ({"Command": ["/bin/reload"]}, {}, "has no effect without Files: a running program"),
        ({"Restart": True}, {}, "has no effect without Files, Env or Argv"),
        ({"Signal": "HUP"}, FILES, ""),
        ({"Command": ["/bin/reload"]}, FILES, ""),
        ({"Restart": True}, FILES, ""),
        ({"Restart": True}, ENV, ""),
        ({}, {}, ""),
    ],
    ids=str,
)
def test_a_reload_without_an_effect_is_noticed(
    on_change: dict[str, Any], parameters: dict[str, Any], warning: str
) -> None:
    checked = fully_checked(with_renewal({"OnChange": on_change}, **parameters))
    found = [each.problem for each in checked.warnings if each.at.endswith("OnChange")]
    assert len(found) == bool(warning)
    assert all(each.startswith(warning) for each in found)
