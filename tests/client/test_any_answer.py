"""Whatever a coordinator answers, a call ends in its result or in one of the SDK's errors."""

import base64
import json
from typing import Any

from hypothesis import example, given, strategies as st

from keyhouse.base.errors import KeyhouseError
from keyhouse.client import calls
from keyhouse.client.effects import HttpAnswer

CALLS: list[calls.ApiCall[Any]] = [
    calls.STATUS,
    calls.MANIFEST,
    calls.LOG,
    calls.PENDING,
    calls.cancelling(None),
    calls.OFFER,
    calls.RECOVERY_SECRETS,
    calls.OPENAPI,
    calls.quoting(b"nonce"),
    calls.setting(b"{}"),
    calls.agreeing(calls.UPDATE, b"{}", approval=b"signed"),
    calls.reading_activations(7),
    calls.reading_secrets(["a"]),
    calls.writing_secrets({}),
    calls.submitting_share(b"share", b"signature"),
    calls.signing(b"quote"),
    calls.counting("name", 1),
]
STATUS = st.sampled_from([200, 201, 302, 400, 401, 403, 404, 405, 409, 429, 500, 501, 503, 999])
FIELDS = st.sampled_from(
    [
        *("code", "message", "cert", "quote", "manifest", "manifestFingerprint", "updateLog"),
        *("manifestSignatureRootECDSA", "secrets", "missingAcknowledgments", "missingUsers"),
        *("RecoverySecrets", "recoverySecrets", "remaining", "tcbStatus", "signature", "value"),
        *("ephemeralPublicKey", "index", "root", "threshold", "keys", "activations", "first"),
        *("next", "problems", "at", "problem", "type", "private", "statusCode", "a"),
    ]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=9)
    | st.binary(max_size=9).map(lambda raw: base64.b64encode(raw).decode()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=5),
    max_leaves=12,
)
ENVELOPES = st.builds(
    lambda word, data: json.dumps({"status": word, "data": data}).encode(),
    st.sampled_from(["success", "fail", "error", "else"]),
    VALUES,
)


@given(STATUS, st.binary(max_size=50) | ENVELOPES)
@example(200, b'{"status":"success","data":"[\\"\\\\ud800\\"]"}')
@example(400, b'{"status":"fail","data":{"\x1b[31m":"\x07"}}')
def test_every_call_ends_well(status: int, body: bytes) -> None:
    answer, said = HttpAnswer(status, body), list[str]()
    for call in CALLS:
        for read in (call.read, call.old.read if call.old is not None else call.read):
            try:
                read(answer)
            except KeyhouseError as error:
                said.append(str(error))
    assert all(map(str.isprintable, said))
