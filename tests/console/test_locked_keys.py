"""Whether the key of a context has to be unlocked before it is used."""

import json
from pathlib import Path

import pytest

from keyhouse.client.contexts import SavedContext
from keyhouse.console.deployments import ConsoleDeployment


@pytest.mark.parametrize(("pin", "locked"), [({}, True), ({"Pin": "1234"}, False)])
def test_a_token_whose_file_has_the_pin_is_not_locked(
    tmp_path: Path, pin: dict[str, str], *, locked: bool
) -> None:
    file = tmp_path / "token.json"
    context = SavedContext(pkcs11_config=str(file), pkcs11_key_label="EC")
    deployment = ConsoleDeployment("prod", context, read_only=False)
    assert not deployment.needs_password  # using it says what is wrong with the file
    file.write_text("{")
    assert not deployment.needs_password

    file.write_text(json.dumps({"Path": "/lib.so", "TokenLabel": "house", **pin}))
    assert deployment.needs_password is locked
    assert deployment.is_anonymous is locked
    assert not ConsoleDeployment("prod", context, read_only=True).needs_password
