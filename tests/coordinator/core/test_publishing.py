"""The leaves of uploads: each leaf is readable, and the leaves together are complete."""

import hashlib

from hypothesis import given, strategies as st
from support.samples.crafted import keys_of_a_root
from support.samples.deployment import NOW

from keyhouse.authority import StoredSecret
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.commands import UploadSecrets
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.events import SecretsUploaded, Uploaded
from keyhouse.coordinator.core.publishing import Publishing
from keyhouse.coordinator.core.state import AcceptingManifest
from keyhouse.transparency import leaf
from keyhouse.transparency.leaf import name_in_leaf, read_leaf
from keyhouse.wire.secret_types import SecretType

CONTEXT = Context(now=NOW, platform="test", instance=bytes(16), version="0", measurement=b"")
SECRET = StoredSecret(Secret(b""), Secret(b""))
NAMES = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=40),
    st.sampled_from(["sha256:" + "0" * 64, '\x7f\0\n"\\', "é" * 256, "é" * 256 + "a", "ab" * 900]),
)


@given(
    st.lists(
        st.tuples(NAMES, st.binary(max_size=3), st.lists(NAMES, min_size=1, max_size=60)),
        max_size=8,
    )
)
def test_leaves_of_uploads_can_be_read_and_name_all_in_their_order(
    uploads: list[tuple[str, bytes, list[str]]],
) -> None:
    publishing, before = Publishing(CONTEXT), AcceptingManifest(keys_of_a_root())
    for user, identity, names in uploads:
        values = tuple(Uploaded(name, SecretType.SYMMETRIC_KEY, SECRET) for name in names)
        command = UploadSecrets(identity, b"", None, values)
        publishing.add(before, command, [SecretsUploaded(time=NOW, user=user, uploads=values)])
    said = [read_leaf(raw) for raw in publishing.finish()]
    assert all(isinstance(each, leaf.SecretsUploadedLeaf) and each.time == NOW for each in said)
    assert [
        (row.user, row.certificate, name)
        for each in said
        if isinstance(each, leaf.SecretsUploadedLeaf)
        for row in each.uploads
        for name in row.names
    ] == [
        (name_in_leaf(user), hashlib.sha256(identity).hexdigest(), name_in_leaf(name))
        for user, identity, names in uploads
        for name in names
    ]
