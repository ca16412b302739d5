"""Who a client is and what it may do."""

import json

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given, strategies as st
from support.samples.manifests import NOW, full, sample

from keyhouse.manifest import Action, Manifest, Permissions
from keyhouse.manifest.check import check

MANIFEST = check(sample("full"), now=NOW).manifest
PERMISSIONS = Permissions(MANIFEST)


def test_users_are_found_by_their_exact_certificate() -> None:
    pem = json.loads(sample("full"))["Users"]["alice"]["Certificate"]
    der = x509.load_pem_x509_certificate(pem.encode()).public_bytes(Encoding.DER)
    assert PERMISSIONS.find_user(der) == "alice"
    for other in (b"", der + b"\0", der[:-1], pem.encode()):
        assert PERMISSIONS.find_user(other) is None


def test_every_user_is_found() -> None:
    for name, user in MANIFEST.users.items():
        assert PERMISSIONS.find_user(user.certificate) == name


@pytest.mark.parametrize(
    ("user", "action", "names", "allowed"),
    [
        ("bob", Action.READ_SECRET, ["apiToken"], True),
        ("bob", Action.READ_SECRET, ["apiToken", "partnerKey"], True),
        ("bob", Action.READ_SECRET, ["apiToken", "clusterKey"], False),
        ("bob", Action.READ_SECRET, ["APITOKEN"], False),
        ("bob", Action.READ_SECRET, ["apiToken "], False),
        ("bob", Action.READ_SECRET, [""], False),
        ("bob", Action.WRITE_SECRET, ["partnerCert"], True),
        ("carol", Action.WRITE_SECRET, ["clusterKey"], False),
        ("carol", Action.READ_SECRET, ["clusterKey", "apiCert"], True),
        ("alice", Action.READ_SECRET, [], False),
        ("bob", Action.READ_SECRET, [], True),
        ("alice", Action.UPDATE_SECURITY_VERSION, ["frontend"], True),
        ("alice", Action.UPDATE_SECURITY_VERSION, ["backend"], False),
        ("bob", Action.UPDATE_SECURITY_VERSION, [], False),
        ("alice", Action.UPDATE_MANIFEST, [], True),
        ("nobody", Action.UPDATE_MANIFEST, [], False),
        ("Alice", Action.UPDATE_MANIFEST, [], False),
    ],
)
def test_permissions_are_exact_and_denied_by_default(
    user: str, action: Action, names: list[str], *, allowed: bool
) -> None:
    assert PERMISSIONS.allows(user, action, names) is allowed


def test_what_is_refused_is_named() -> None:
    refused = PERMISSIONS.refused("bob", Action.READ_SECRET, ["x", "apiToken", "diskKey", "x"])
    assert refused == ("diskKey", "x")
    assert PERMISSIONS.refused("nobody", Action.READ_SECRET, ["apiToken"]) == ("apiToken",)


def test_holders_are_sorted() -> None:
    assert PERMISSIONS.holders(Action.UPDATE_MANIFEST) == ("alice", "bob", "carol")
    assert PERMISSIONS.holders(Action.WRITE_SECRET) == ("bob",)


def manifest_with(roles: dict[str, tuple[list[str], list[str]]]) -> Manifest:
    document = full()
    document["Roles"] = {
        name: {"ResourceType": "Secrets", "ResourceNames": names, "Actions": actions}
        for name, (names, actions) in roles.items()
    }
    for user in document["Users"].values():
        user["Roles"] = sorted(roles)
    document["Config"] = {}
    return check(json.dumps(document).encode(), now=NOW).manifest


NAMES = ["apiToken", "partnerKey", "partnerCert"]


@given(
    st.dictionaries(
        st.sampled_from("abc"),
        st.tuples(
            st.lists(st.sampled_from(NAMES)),
            st.lists(st.sampled_from(["ReadSecret", "writesecret", "WRITESECRET"])),
        ),
    ),
    st.lists(st.sampled_from([*NAMES, "x"]), min_size=1),
)
def test_permissions_of_all_roles_add_up(
    roles: dict[str, tuple[list[str], list[str]]], wanted: list[str]
) -> None:
    permissions = Permissions(manifest_with(roles))
    for action in (Action.READ_SECRET, Action.WRITE_SECRET):
        granted = {
            name
            for names, actions in roles.values()
            if action.lower() in [each.lower() for each in actions]
            for name in names
        }
        assert permissions.allows("bob", action, wanted) == (set(wanted) <= granted)
        assert set(permissions.refused("bob", action, wanted)) == set(wanted) - granted


def test_ten_thousand_names_can_be_asked_at_once() -> None:
    document = full()
    names = [f"s{number}" for number in range(10_000)]
    document["Secrets"] |= {name: {"Type": "plain", "UserDefined": True} for name in names}
    document["Roles"]["secretManager"]["ResourceNames"] += names
    permissions = Permissions(check(json.dumps(document).encode(), now=NOW).manifest)
    assert permissions.allows("bob", Action.WRITE_SECRET, names)
    assert not permissions.allows("carol", Action.WRITE_SECRET, ["s1"])
