"""Answers of another implementation of the interface, as the SDK gives them to a program."""

import json
from typing import Any

import pytest

from keyhouse.client import AnswerUnreadableError, calls
from keyhouse.client.effects import HttpAnswer


def _answer(data: Any) -> HttpAnswer:
    return HttpAnswer(200, json.dumps({"status": "success", "data": data}).encode())


def test_signature_of_a_quote_is_the_one_under_either_name() -> None:
    data = {"tcbStatus": "UpToDate", "verificationSignature": "AQ=="}

    for sent in (data, {**data, "signature": "AQ=="}, {**data, "signature": "Ag=="}):
        assert calls.signing(b"quote").read(_answer(sent)).signature == b"\x01"


def test_version_1_without_a_manifest_is_not_treated_as_an_empty_one() -> None:
    assert calls.MANIFEST.old is not None
    data = {"manifestSignatureRootECDSA": None, "manifestSignature": "", "manifest": None}

    with pytest.raises(AnswerUnreadableError, match="no manifest"):
        calls.MANIFEST.old.read(_answer(data))


@pytest.mark.parametrize("name", ["RecoverySecrets", "recoveryKeys"])
def test_recovery_secrets_are_found_under_either_name(name: str) -> None:
    call = calls.setting(b"{}")
    assert call.old is not None

    for read in (call.read, call.old.read):
        assert read(_answer({name: {"ann": "AAE="}})).shares == {"ann": b"\x00\x01"}
