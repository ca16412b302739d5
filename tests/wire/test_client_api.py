"""The bytes of each answer, what a reader makes of them, and what readers take besides."""

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from keyhouse.base.errors import Problem
from keyhouse.base.secret import Secret
from keyhouse.wire import client_api as api
from keyhouse.wire.field_presence import LEFT_OUT, NULL, encoded
from keyhouse.wire.json_decoder import decode
from keyhouse.wire.json_parser import UnreadableError

SHARES = {"ann": b"\x00\x01"}

SENT: dict[str, tuple[msgspec.Struct, bytes]] = {
    "status": (
        api.Status(status=3, code=3, message="running", lease=api.LeaseLeft(60, 900)),
        b'{"status":3,"code":3,"message":"running","lease":{"seconds":60,"operations":900}}',
    ),
    "manifest": (
        api.ManifestData(b"\x00", "ab", b"{}"),
        b'{"manifestSignatureRootECDSA":"AA==","manifestFingerprint":"ab","manifest":"e30="}',
    ),
    "shares": (
        api.SetManifestData(SHARES, SHARES),
        b'{"RecoverySecrets":{"ann":"AAE="},"recoveryKeys":{"ann":"AAE="}}',
    ),
    "no shares": (api.SetManifestData({}, {}), b"{}"),
    "evidence": (api.EvidenceData("PEM", b"\x00"), b'{"cert":"PEM","quote":"AA=="}'),
    "log": (api.UpdateLogData(("{}",)), b'{"updateLog":["{}"]}'),
    "pending": (
        api.Pending(b"{}", "1 more", ("bob",)),
        b'{"manifest":"e30=","message":"1 more","missingUsers":["bob"]}',
    ),
    "message": (api.MessageData("done"), b'{"message":"done"}'),
    "recovery key": (
        api.Offer(
            ephemeral_public_key=b"\x01",
            signature=b"\x02",
            index=api.RecoveryIndexData(
                root=b"\x03",
                manifest_fingerprint="ab",
                store_id="cd",
                epoch=1,
                threshold=2,
                keys=SHARES,
            ),
            received=("ann",),
        ),
        (
            b'{"algorithm":"RSA","ephemeralPublicKey":"AQ==","signature":"Ag==","index":{"root":"Aw==",'
            b'"manifestFingerprint":"ab","storeId":"cd","epoch":1,"threshold":2,"keys":{"ann":"AAE="}},'
            b'"received":["ann"]}'
        ),
    ),
    "shares again": (api.RecoverySecretsData(SHARES), b'{"recoverySecrets":{"ann":"AAE="}}'),
    "progress": (
        api.Progress(0, "recovered", witnessed=True),
        b'{"remaining":0,"message":"recovered","witnessed":true}',
    ),
    "signed quote": (
        api.SignedQuote(tcb_status="UpToDate", signature=b"\x01", verification_signature=b"\x01"),
        b'{"tcbStatus":"UpToDate","signature":"AQ==","verificationSignature":"AQ=="}',
    ),
    "counter": (api.CounterData(2**64 - 1), b'{"value":18446744073709551615}'),
    "activations": (
        api.Activations((api.Activation(time="t", marble_type="m", uuid="u"),), 0, 1),
        b'{"activations":[{"time":"t","marbleType":"m","uuid":"u"}],"first":0,"next":1}',
    ),
    "counters": (
        api.Counters(
            {"m": api.ActivationLimit(1, 2)},
            (api.WorkloadCounters("m", "u", {"a": 2**64 - 1}),),
            0,
            1,
        ),
        (
            b'{"limits":{"m":{"activations":1,"maxActivations":2}},"workloads":[{"marbleType":"m",'
            b'"uuid":"u","counters":{"a":18446744073709551615}}],"first":0,"next":1}'
        ),
    ),
    "status 1": (api.OldStatusData(3, "running"), b'{"statusCode":3,"statusMessage":"running"}'),
    "manifest 1": (
        api.OldManifestData(b"\x00", "ab", b"{}"),
        b'{"manifestSignatureRootECDSA":"AA==","manifestSignature":"ab","manifest":"e30="}',
    ),
    "shares 1": (
        api.OldSetManifestData(SHARES, SHARES),
        b'{"recoveryKeys":{"ann":"AAE="},"RecoverySecrets":{"ann":"AAE="}}',
    ),
    "problems": (
        api.Problems((Problem("a", "is wrong"),)),
        b'{"problems":[{"at":"a","problem":"is wrong","hint":""}]}',
    ),
}


@pytest.mark.parametrize(("data", "text"), SENT.values(), ids=SENT)
def test_answer_has_these_bytes_and_is_read_back(data: msgspec.Struct, text: bytes) -> None:
    assert msgspec.json.encode(data) == text
    assert decode(text, type(data)) == data


def test_without_witnesses_a_status_has_no_lease() -> None:
    text = msgspec.json.encode(api.Status(status=3, code=3, message="running", lease=LEFT_OUT))

    assert text == b'{"status":3,"code":3,"message":"running"}'
    assert decode(text, api.Status).lease is None


def test_without_witnesses_no_answer_says_whether_they_know() -> None:
    text = msgspec.json.encode(api.Progress(1, "1 more", LEFT_OUT))

    assert text == b'{"remaining":1,"message":"1 more"}'
    assert decode(text, api.Progress) == api.Progress(1, "1 more", witnessed=False)


def test_message_of_an_update_is_sent_only_by_an_acknowledgement() -> None:
    updated = api.UpdateAnswer(
        message=LEFT_OUT,
        signed=LEFT_OUT,
        missing_acknowledgments=1,
        missing_users=("b",),
        recovery_secrets=LEFT_OUT,
        witnessed=LEFT_OUT,
    )
    applied = api.AcknowledgedData(
        message="All",
        signed=LEFT_OUT,
        missing_acknowledgments=0,
        recovery_secrets=SHARES,
        witnessed=LEFT_OUT,
    )

    assert msgspec.json.encode(updated) == b'{"missingAcknowledgments":1,"missingUsers":["b"]}'
    text = msgspec.json.encode(applied)
    assert text == (
        b'{"message":"All","missingAcknowledgments":0,"missingUsers":[],'
        b'"recoverySecrets":{"ann":"AAE="}}'
    )
    assert decode(text, api.AcknowledgedData) == replace(applied, signed=False, witnessed=False)
    assert decode(text, api.UpdateAnswer).message == "All"


def test_version_1_says_null_before_there_is_a_manifest() -> None:
    text = msgspec.json.encode(api.OldManifestData(NULL, "", NULL))

    assert text == b'{"manifestSignatureRootECDSA":null,"manifestSignature":"","manifest":null}'
    assert decode(text, api.OldManifestData) == api.OldManifestData()


def test_activations_that_were_encoded_before_are_sent_as_they_are() -> None:
    page = api.Activations((encoded(b'{"time":"t"}'),), 0, 1)

    assert msgspec.json.encode(page) == b'{"activations":[{"time":"t"}],"first":0,"next":1}'


# --- what another implementation of the interface sends ---

OTHERS: dict[str, tuple[dict[str, Any], msgspec.Struct]] = {
    "status without status": (
        {"code": 3, "message": "text"},
        api.Status(status=0, code=3, message="text"),
    ),
    "unknown phase, unknown field": ({"code": 4, "more": [1]}, api.Status(code=4)),
    "no missing users": (
        {"missingAcknowledgments": 0, "missingUsers": None},
        api.UpdateAnswer(missing_acknowledgments=0),
    ),
    "shares under one name": (
        {"RecoverySecrets": {"ann": "AAE="}},
        api.SetManifestData(recovery_secrets=SHARES),
    ),
    "quote signed under one name": (
        {"tcbStatus": "UpToDate", "verificationSignature": "AQ=="},
        api.SignedQuote(tcb_status="UpToDate", verification_signature=b"\x01"),
    ),
    "capitalised manifest of version 1": (
        {"ManifestSignatureRootECDSA": "AA==", "ManifestSignature": "ab", "Manifest": "e30="},
        api.OldManifestData(b"\x00", "ab", b"{}"),
    ),
    "capitalised secret with all fields": (
        {
            "Type": "a-new-type",
            "Size": 256,
            "Shared": True,
            "UserDefined": False,
            "Cert": None,
            "ValidFor": 0,
            "Private": "Ag==",
            "Public": None,
        },
        api.SecretObject(type="a-new-type", size=256, shared=True, private=Secret(b"\x02")),
    ),
}


@pytest.mark.parametrize(("sent", "data"), OTHERS.values(), ids=OTHERS)
def test_what_another_implementation_sends_is_read(
    sent: dict[str, Any], data: msgspec.Struct
) -> None:
    assert decode(json.dumps(sent).encode(), type(data)) == data


@pytest.mark.parametrize("name", SENT)
def test_answer_of_another_shape_is_not_read(name: str) -> None:
    with pytest.raises(UnreadableError):
        decode(b"[]", type(SENT[name][0]))


def test_shares_are_found_under_either_name() -> None:
    assert api.SetManifestData(recovery_secrets=SHARES).shares == SHARES
    assert api.SetManifestData(recovery_keys=SHARES).shares == SHARES
