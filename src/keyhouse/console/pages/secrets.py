"""The page Secrets: names, types and rights. A user requests each value on its own."""

import base64
from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from keyhouse.base.errors import BadRequestError, KeyhouseError
from keyhouse.base.secret import Secret
from keyhouse.client import SecretObject
from keyhouse.console.deployments import ConsoleDeployment, ManifestInForce
from keyhouse.console.page import TemplateView, change, fields_of, page, paged
from keyhouse.console.results import Result
from keyhouse.views.secrets import DescribedSecret, described_secrets, upload_of
from keyhouse.views.visible import visible
from keyhouse.wire.base64_text import decode_base64


class SecretRow(msgspec.Struct, frozen=True):
    """A secret, its newest upload, and the rights of the session's user.

    ``changed`` is the time of the upload, and ``by`` the name of its user; "" without an upload.
    """

    secret: DescribedSecret
    changed: str
    by: str
    may_read: bool
    may_write: bool


@page("secrets")
async def show(request: Request, deployment: ConsoleDeployment) -> TemplateView:
    """Show the secrets of the manifest, and the times of uploads."""
    word = request.query_params.get("q", "")
    link, in_force = await deployment.link(), await deployment.in_force()
    uploads: dict[str, tuple[str, str]] = {}
    for entry in await link.coordinator.update_log():
        name = msgspec.json.decode(entry.text).get("secret")
        if name is not None:
            uploads[name] = (entry.time, entry.user)
    listed = [
        each
        for each in described_secrets(in_force.manifest)
        if word.casefold() in each.name.casefold() or word.casefold() in each.type
    ]
    part = paged(request, listed)
    rows = [_row(each, uploads.get(each.name, ("", "")), in_force) for each in part.rows]
    done = request.query_params.get("done", "")
    values = {
        "part": part,
        "rows": rows,
        "word": word,
        "result": deployment.results.find(done) if done else None,
    }
    return TemplateView("secrets", values)


def _row(secret: DescribedSecret, upload: tuple[str, str], in_force: ManifestInForce) -> SecretRow:
    user = in_force.user
    return SecretRow(
        secret,
        *upload,
        may_read=user in secret.readers,
        may_write=user in secret.writers and in_force.manifest.secrets[secret.name].user_defined,
    )


@page("secrets")
async def read(request: Request, deployment: ConsoleDeployment) -> Response:
    """Return the value of a secret to the script of the page, as JSON.

    So no page, and no history of the browser, contains the value.
    """
    name = fields_of(request).get("secret", "")
    link = await deployment.link()
    try:
        found = (await link.coordinator.secrets([name]))[name]
    except KeyhouseError as error:
        return JSONResponse({"error": visible(error.message), "hint": visible(error.hint)}, 400)
    return JSONResponse({"parts": _parts(found)})


@change("secrets")
async def write(request: Request, deployment: ConsoleDeployment) -> Response:
    """Upload the value of a secret: a text, or a file in base64.

    The answer is JSON for the script of the page.
    """
    fields = fields_of(request)
    name = fields.get("secret", "")
    link, in_force = await deployment.link(), await deployment.in_force()
    try:
        value = _given(fields)
        upload = upload_of(name, value, in_force.manifest)
        await link.coordinator.write_secrets({name: upload})
    except KeyhouseError as error:
        return JSONResponse({"error": visible(error.message), "hint": visible(error.hint)}, 400)
    result = Result(
        kind="uploaded",
        at=datetime.now(UTC),
        user=in_force.user,
        secret=name,
        size=len(value.reveal()),
    )
    done = deployment.results.add(result)
    return JSONResponse({"next": f"/d/{deployment.name}/secrets?done={done}"})


def _given(fields: dict[str, str]) -> Secret:
    if fields.get("file"):
        return Secret(decode_base64(fields["file"]))
    text = fields.get("text", "")
    if not text:
        raise BadRequestError("the secret needs a value", hint="type a value, or choose a file")
    return Secret(text.replace("\r\n", "\n").encode("utf-8", "surrogatepass"))


def _parts(secret: SecretObject) -> list[dict[str, Any]]:
    """Return the parts of ``secret``, such as a certificate and its private key.

    The value of a part is text, or base64 if the bytes are not text.
    """
    parts: list[dict[str, Any]] = []
    if secret.cert:
        der = base64.b64encode(secret.cert).decode()
        parts.append({"name": "certificate", "form": "base64, DER", "value": der})
    if secret.private is not None:
        parts.append(_part("value" if not secret.cert else "private key", secret.private.reveal()))
    if secret.cert and secret.public is not None:
        parts.append(_part("public key", secret.public.reveal()))
    return parts


def _part(name: str, value: bytes) -> dict[str, Any]:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = ""
    if text and all(each.isprintable() or each in "\n\t" for each in text):
        return {"name": name, "form": "text", "value": text}
    return {"name": name, "form": "base64", "value": base64.b64encode(value).decode()}
