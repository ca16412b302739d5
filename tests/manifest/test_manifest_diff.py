"""What differs between two manifests, by meaning."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from support.samples.manifests import Change as Edit, Document, changed, full, sample

from keyhouse.manifest import decode
from keyhouse.manifest.diff import Change, diff


def edited(edit: Edit) -> tuple[Change, ...]:
    """Return what differs between the full sample and the same after ``edit``."""
    return diff(decode(sample("full")), decode(changed(edit)))


def first(section: str) -> str:
    """Return the name of an entry of the full sample."""
    return str(next(iter(full()[section])))


def test_a_manifest_does_not_differ_from_itself() -> None:
    assert diff(decode(sample("full")), decode(sample("full"))) == ()


@pytest.mark.parametrize(
    "section", [name for name in full() if name != "Config" and full()[name]], ids=str
)
def test_every_entry_that_goes_is_told_and_comes_back_the_other_way(section: str) -> None:
    whole = decode(sample("full"))
    name = first(section)
    less = decode(changed(lambda document: document[section].pop(name)))

    (gone,) = diff(whole, less)
    (come,) = diff(less, whole)

    assert (gone.kind, gone.section, gone.name, gone.field) == ("removed", section, name, ())
    assert come == Change("added", section, name, (), None, gone.old)
    assert json.loads(json.dumps(gone.old)) == gone.old


def _package(**fields: Any) -> Edit:
    return lambda document: document["Packages"][first("Packages")].update(fields)


@pytest.mark.parametrize(
    ("edit", "field", "new"),
    [
        (_package(ProductID=77), ("ProductID",), 77),
        (_package(Debug=True), ("Debug",), True),
        (
            _package(AcceptedTCBStatuses=["OutOfDate"]),
            ("AcceptedTCBStatuses",),
            ["OutOfDate", "UpToDate"],
        ),
    ],
    ids=["number", "switch", "list"],
)
def test_a_changed_field_is_named_with_its_new_value(
    edit: Edit, field: tuple[str, ...], new: object
) -> None:
    (found,) = edited(edit)

    assert (found.section, found.name) == ("Packages", first("Packages"))
    assert found.kind == ("added" if found.old is None else "changed")
    assert (found.field, found.new) == (field, new)


def test_files_and_variables_are_told_one_by_one() -> None:
    def edit(document: Document) -> None:
        marble = document["Marbles"][first("Marbles")]
        marble.setdefault("Parameters", {})["Env"] = {
            "NEW": "1",
            "BYTES": {"Data": "/w==", "Encoding": "base64"},
        }

    found = {each.field: each.new for each in edited(edit) if each.kind == "added"}

    assert found["Parameters", "Env", "NEW"] == "1"
    assert found["Parameters", "Env", "BYTES"].startswith("1 bytes, SHA-256 a8100ae6aa1940d0")


def test_a_config_field_has_no_entry() -> None:
    (found,) = edited(
        lambda document: document.setdefault("Config", {}).update(SealMode="UniqueKey")
    )

    assert (found.section, found.name, found.field) == ("Config", "", ("SealMode",))
    assert found.new == "UniqueKey"


def _small(**secret: Any) -> bytes:
    definition = {"Type": "symmetric-key", "Size": 128, "UserDefined": True, **secret}
    return json.dumps({"Secrets": {"s": definition}}).encode()


def test_values_of_secrets_are_compared_and_never_shown() -> None:
    one, other = (base64.b64encode(bytes([n]) * 16).decode() for n in (1, 2))
    (found,) = diff(decode(_small(Private=one)), decode(_small(Private=other)))

    assert (found.section, found.name, found.field) == ("Secrets", "s", ("Private",))
    assert (found.old, found.new) == ("secret of 16 bytes", "another secret of 16 bytes")


def _with_key(name: str) -> bytes:
    text = full()["RecoveryKeys"][name]
    return json.dumps({"RecoveryKeys": {"k": text}}).encode()


def test_another_recovery_key_is_told_by_its_digest() -> None:
    names = list(full()["RecoveryKeys"])
    rewritten = json.dumps(
        {"RecoveryKeys": {"k": full()["RecoveryKeys"][names[0]] + "\n"}}
    ).encode()

    (found,) = diff(decode(_with_key(names[0])), decode(rewritten))

    assert found.old.startswith("key, SHA-256 ")
    assert found.new == f"another {found.old}"


def _respelled(value: Any) -> Any:
    """Return ``value`` with the outer fields in capitals, and every map turned round."""
    return {name.upper(): turned(inner) for name, inner in reversed(value.items())}


def turned(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: turned(inner) for name, inner in reversed(value.items())}
    return value


def test_spelling_order_and_written_defaults_are_no_difference() -> None:
    def edit(document: Document) -> None:
        package = document["Packages"][first("Packages")]
        package["Debug"] = package.get("Debug", False)
        for role in document["Roles"].values():
            role["Actions"] = [*reversed(role["Actions"]), role["Actions"][0]]
        for user in document["Users"].values():
            user["Roles"] = list(reversed(user["Roles"]))

    assert edited(edit) == ()
    assert diff(decode(sample("full")), decode(json.dumps(_respelled(full())).encode())) == ()


_ENTRIES = st.dictionaries(
    st.sampled_from("abc"),
    st.fixed_dictionaries({"UniqueID": st.sampled_from(["00" * 32, "11" * 32])}),
)


@settings(max_examples=50)
@given(_ENTRIES, _ENTRIES)
def test_what_comes_one_way_goes_the_other_way(old: Any, new: Any) -> None:
    before, after = (decode(json.dumps({"Packages": each}).encode()) for each in (old, new))
    swap = {"added": "removed", "removed": "added", "changed": "changed"}

    there, back = diff(before, after), diff(after, before)

    assert [(swap[each.kind], each.name, each.new, each.old) for each in there] == [
        (each.kind, each.name, each.old, each.new) for each in back
    ]
    assert (there == ()) == (old == new)
