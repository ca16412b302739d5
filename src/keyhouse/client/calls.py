"""The calls of the interface as data: the request, and the reader of its answer.

The field ``old`` of a call is the same call in version 1, for coordinators that answer 405 to
version 2. The module ``answers`` lists the calls without ``old``, with reasons.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from keyhouse.base.printable import excerpt
from keyhouse.base.secret import Secret
from keyhouse.client import answers
from keyhouse.client.effects import HttpAnswer, HttpRequest
from keyhouse.client.errors import ClientSetupError
from keyhouse.wire import client_api as wire
from keyhouse.wire.plan import PlanData
from keyhouse.wire.secret_types import UserSecret

T = TypeVar("T")

_LARGE: Final = 64 << 20  # bytes of an answer, chosen: four times the largest manifest
_LARGEST: Final = 2**64 - 1  # counters are unsigned 64-bit numbers
UPDATE: Final = "/api/v2/update"
ACKNOWLEDGE: Final = "/api/v2/update-manifest"


class Old(msgspec.Struct, Generic[T], frozen=True):
    """A call of version 1 of the Client API, for a coordinator without version 2."""

    request: HttpRequest
    read: Callable[[HttpAnswer], T]


class ApiCall(msgspec.Struct, Generic[T], frozen=True):
    """A call of version 2. ``old`` is the same call in version 1, if one exists.

    ``read`` returns the result in an answer, and raises the errors of ``answers.data_of``.
    """

    request: HttpRequest
    read: Callable[[HttpAnswer], T]
    old: Old[T] | None = None


def _get(path: str, maximum: int = _LARGE) -> HttpRequest:
    return HttpRequest("GET", path, maximum=maximum)


def _post(path: str, body: bytes | None, maximum: int = 1 << 20) -> HttpRequest:
    secret = Secret(body) if body is not None else None
    return HttpRequest("POST", path, body=secret, maximum=maximum)


def _json(value: Any) -> bytes:
    """Return the JSON body of a request. The body contains secrets in readable form."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        raise _no_text() from None


def _revealed(value: object) -> bytes:
    assert isinstance(value, Secret)  # noqa: S101 msgspec knows how to encode all else
    return value.reveal()


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_revealed)


def _bytes(value: bytes, what: str) -> bytes:
    """Return ``value``, which must be bytes.

    Raises ``TypeError`` for a text: the coordinator would decode the text as base64. ``what`` names
    the value in this error.
    """
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"{what} must be bytes, not {type(value).__name__}")
    return value


def _upload(name: str, upload: UserSecret) -> UserSecret:
    if not isinstance(upload, UserSecret):
        raise TypeError(
            f"the value of {excerpt(name)!r} must be a SecretUpload, not {type(upload).__name__}"
        )
    for field in (upload.key, upload.private):
        if field is not None and not isinstance(field, Secret):
            raise TypeError(f"key and private of {excerpt(name)!r} must be Secret(bytes)")
    for part in (upload.cert, upload.public):
        if part is not None:
            _bytes(part, f"cert and public of {excerpt(name)!r}")
    return upload.given


def _text(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name of a secret must be text, not {type(name).__name__}")
    try:
        return name.encode().decode()
    except UnicodeEncodeError:
        raise _no_text() from None


def _no_text() -> ClientSetupError:
    return ClientSetupError(
        "the name of a secret is not UTF-8, but must be", hint="pass a name in UTF-8"
    )


def _data(kind: type[T]) -> Callable[[HttpAnswer], T]:
    """Return a function that reads the data of an answer as a value of the type ``kind``."""
    return lambda answer: answers.data_of(answer, kind)


def _log(answer: HttpAnswer) -> tuple[wire.LogEntry, ...]:
    return tuple(map(answers.log_entry, answers.data_of(answer, wire.UpdateLogData).update_log))


def _revocation(answer: HttpAnswer) -> wire.RevocationAnswer:
    data, message = answers.data_and_message(answer, wire.RevocationAnswer)
    return msgspec.structs.replace(data, message=excerpt(message))


def _update(answer: HttpAnswer) -> wire.UpdateAnswer:
    data, message = answers.data_and_message(answer, wire.UpdateAnswer)
    return msgspec.structs.replace(data, message=excerpt(data.message or message))


def _signed(answer: HttpAnswer) -> wire.SignedQuote:
    data = answers.data_of(answer, wire.SignedQuote)
    return msgspec.structs.replace(data, signature=data.verification_signature)


STATUS: Final = ApiCall(
    _get("/api/v2/status", 1 << 20),
    _data(wire.Status),
    Old(_get("/status", 1 << 20), answers.old_status),
)
MANIFEST: Final = ApiCall(
    _get("/api/v2/manifest"),
    _data(wire.ManifestData),
    Old(_get("/manifest"), answers.old_manifest),
)
LOG: Final = ApiCall(_get("/api/v2/update"), _log, Old(_get("/update"), answers.old_log))
PENDING: Final = ApiCall(
    _get("/api/v2/update-manifest"),
    _data(wire.Pending),
    Old(_get("/update-manifest"), _data(wire.Pending)),
)
OFFER: Final = ApiCall(_get("/api/v2/recover/public-key"), _data(wire.Offer))
RECOVERY_SECRETS: Final = ApiCall(
    _get("/api/v2/recovery-secrets"),
    lambda answer: answers.data_of(answer, wire.RecoverySecretsData).recovery_secrets,
)
REFUSED: Final = ApiCall(_get("/api/v2/refused-activations"), _data(wire.RefusedActivations))
REVOCATIONS: Final = ApiCall(_get("/api/v2/revocations"), _data(wire.Revocations))
LOG_KEY: Final = ApiCall(_get("/api/v2/log/key", 1 << 16), _data(wire.LogKeyData))
CHECKPOINT: Final = ApiCall(_get("/api/v2/log/checkpoint", 1 << 18), answers.content)
NEWEST_CHECKPOINT: Final = ApiCall(
    HttpRequest("GET", "/api/v2/log/checkpoint", query=(("newest", "true"),), maximum=1 << 18),
    answers.content,
)
OPENAPI: Final = ApiCall(_get("/api/v2/openapi.json"), answers.document)


def quoting(nonce: bytes) -> ApiCall[wire.EvidenceData]:
    """Return the call for a quote over ``nonce``."""
    text = base64.urlsafe_b64encode(nonce).decode()
    request = HttpRequest("GET", "/api/v2/quote", query=(("nonce", text),))
    return ApiCall(request, _data(wire.EvidenceData))


def log_quoting(nonce: bytes) -> ApiCall[wire.LogQuoteData]:
    """Return the call for a checkpoint of the log, with a quote over checkpoint and ``nonce``."""
    text = base64.urlsafe_b64encode(nonce).decode()
    request = HttpRequest("GET", "/api/v2/log/quote", query=(("nonce", text),))
    return ApiCall(request, _data(wire.LogQuoteData))


def line_quoting(nonce: bytes) -> ApiCall[wire.LineData]:
    """Return the call for the line of the root, with a quote over the line and ``nonce``."""
    text = base64.urlsafe_b64encode(nonce).decode()
    request = HttpRequest("GET", "/api/v2/line", query=(("nonce", text),), maximum=_LARGE)
    return ApiCall(request, _data(wire.LineData))


def log_part(path: str) -> ApiCall[bytes]:
    """Return the call for a part of the transparency log.

    ``path`` names the part: ``tile/...`` or ``object/...``.
    """
    return ApiCall(_get(f"/api/v2/log/{path}"), answers.content)


def _manifest(manifest: bytes) -> wire.ManifestBody:
    return wire.ManifestBody(_bytes(manifest, "a manifest"))


def setting(manifest: bytes) -> ApiCall[wire.SetManifestData]:
    """Return the call that sets the first manifest."""
    return ApiCall(
        _post("/api/v2/manifest", _json(_manifest(manifest)), _LARGE),
        _data(wire.SetManifestData),
        Old(_post("/manifest", manifest, _LARGE), answers.old_shares),
    )


def planning(manifest: bytes) -> ApiCall[PlanData]:
    """Return the call for the plan of an update to ``manifest``."""
    return ApiCall(_post("/api/v2/plan", _json(_manifest(manifest)), _LARGE), _data(PlanData))


def agreeing(
    path: str, manifest: bytes, plan: str = "", approval: bytes | None = None
) -> ApiCall[wire.UpdateAnswer]:
    """Return the call that uploads or acknowledges the update to ``manifest``.

    ``path`` is ``UPDATE`` or ``ACKNOWLEDGE``. ``plan`` is the digest of the reviewed plan, or "".
    ``approval`` is the user's signed approval, or None. Older coordinators ignore plan and
    approval.
    """
    body = wire.UpdateBody(_bytes(manifest, "a manifest"), plan or None, approval)
    return ApiCall(_post(path, _json(body), _LARGE), _update)


def cancelling(approval: bytes | None) -> ApiCall[None]:
    """Return the call to cancel the pending update, with the user's signed ``approval`` or None."""
    body = None if approval is None else _json(wire.CancelBody(approval))
    old = Old(_post("/update-cancel", None), answers.require_success)
    return ApiCall(_post("/api/v2/update-cancel", body), answers.require_success, old)


def reading_activations(start: int | None) -> ApiCall[wire.Activations]:
    """Return the call for the page of activations from number ``start``; None: the newest page."""
    return ApiCall(_page("/api/v2/activations", start), _data(wire.Activations))


def reading_counters(start: int | None) -> ApiCall[wire.Counters]:
    """Return the call for the counters of the workloads in a page of activations.

    ``start`` is the number of the first activation in the page; None: the newest page.
    """
    return ApiCall(_page("/api/v2/counters", start), _data(wire.Counters))


def reading_workloads(start: str) -> ApiCall[wire.Workloads]:
    """Return the call for a page of workloads.

    ``start`` is the field ``next`` of the page before; empty: the first page.
    """
    query = (("from", start),) if start else ()
    request = HttpRequest("GET", "/api/v2/workloads", query=query, maximum=_LARGE)
    return ApiCall(request, _data(wire.Workloads))


def revoking(body: wire.RevocationBody) -> ApiCall[wire.RevocationAnswer]:
    """Return the call that revokes a workload, a marble type or a platform."""
    return ApiCall(_post("/api/v2/revocations", _json(body)), _revocation)


def _page(path: str, start: int | None) -> HttpRequest:
    query = (("from", str(start)),) if start is not None else ()
    return HttpRequest("GET", path, query=query, maximum=_LARGE)


def reading_secrets(names: Sequence[str]) -> ApiCall[dict[str, wire.SecretObject]]:
    """Return the call for the secrets with these names."""
    query = tuple(("s", _text(name)) for name in names)
    return ApiCall(
        HttpRequest("GET", "/api/v2/secrets", query=query, maximum=_LARGE),
        lambda answer: answers.data_of(answer, wire.SecretsData).secrets,
        Old(HttpRequest("GET", "/secrets", query=query, maximum=_LARGE), answers.old_secrets),
    )


def writing_secrets(uploads: Mapping[str, UserSecret]) -> ApiCall[None]:
    """Return the call that sets secrets by name. Empty fields are not sent."""
    secrets = {_text(name): _upload(name, upload) for name, upload in uploads.items()}
    return ApiCall(
        _post("/api/v2/secrets", _json(wire.SecretsBody(secrets))),
        answers.require_success,
        Old(_post("/secrets", _json(secrets)), answers.require_success),
    )


def submitting_share(encrypted_share: bytes, signature: bytes) -> ApiCall[wire.Progress]:
    """Return the call that submits a recovery share, with the ``signature`` of its holder."""
    body = wire.RecoverBody(Secret(encrypted_share), signature)
    return ApiCall(_post("/api/v2/recover", _json(body)), _data(wire.Progress))


def signing(quote: bytes) -> ApiCall[wire.SignedQuote]:
    """Return the call for the root key's signature over a quote."""
    return ApiCall(
        _post("/api/v2/sign-quote", _json(wire.SignQuoteBody(_bytes(quote, "a quote")))), _signed
    )


def counting(name: str, value: int) -> ApiCall[int]:
    """Return the call that raises the counter ``name`` to ``value`` if the counter is lower."""
    if not 0 <= value <= _LARGEST:
        raise ClientSetupError(
            "a counter's value must be 0 or more, and less than 2**64",
            hint="pass a value in this range",
        )
    return ApiCall(
        _post("/api/v2/monotonic-counter", _json(wire.CounterBody(name, value))),
        lambda answer: answers.data_of(answer, wire.CounterData).value,
    )
