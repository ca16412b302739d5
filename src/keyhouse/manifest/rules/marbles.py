"""Rules for ``Marbles``: their parameters, the calls in their templates, and their ``TLS`` tags."""

import re
from collections.abc import Mapping

from keyhouse.base.errors import BadRequestError, Findings
from keyhouse.base.printable import Place, quoted
from keyhouse.manifest.convert import decode_entry
from keyhouse.manifest.document import EntryDocument, ManifestDocument, MarbleDocument
from keyhouse.manifest.model import Incoming, Outgoing
from keyhouse.manifest.rules.references import meant_by, refuse_undefined
from keyhouse.manifest.templates import Template, TemplateCall, TemplateSource, parse
from keyhouse.wire.json_decoder import nearest
from keyhouse.wire.secret_types import SecretType

MOST_PORTS = 1_000_000
"""Bounds the comparison of ports. Many marbles with a tag of many ports would take hours."""

MOST_ACTIONS = 50_000
"""Maximum of actions in all different templates: parsing takes half a second of a core."""

_Types = Mapping[str, SecretType | None]

_ANYWHERE = {"pem", "hex", "base64"}
_IN_FILES = _ANYWHERE | {"raw"}
_IN_ENV = _ANYWHERE | {"string"}

_RESERVED = {
    "RootCA": {"Cert"},
    "MarbleCert": {"Cert", "Public", "Private"},
    "CoordinatorRoot": {"Cert"},
    "CoordinatorIntermediate": {"Cert"},
}

_PREDEFINED = {
    "MARBLE_PREDEFINED_ROOT_CA",
    "MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN",
    "MARBLE_PREDEFINED_PRIVATE_KEY",
    "MARBLE_PREDEFINED_COORDINATOR_ROOT_CA",
}


def check_marbles(manifest: ManifestDocument, types: _Types, findings: Findings) -> None:
    """Check that marble types exist, with defined packages and TLS tags, and valid templates.

    ``types`` has the type of each secret by name; None for a secret with an unknown type.
    """
    if not manifest.marbles:
        findings.refuse(("Marbles",), "is empty", "name at least one workload type")
    ports = {tag: _ports(manifest, tag) for tag in manifest.tls}
    if _number_of_ports(manifest, ports) > MOST_PORTS:
        problem = f"have more than {MOST_PORTS} incoming ports in all tags together"
        findings.refuse(("Marbles",), problem, "remove incoming ports or tags")
        return
    entries = _Entries(types, findings)
    for name, marble in manifest.marbles.items():
        place = ("Marbles", name)
        if not name:
            findings.refuse(place, "has an empty name", "name the workload type")
        if not marble.package:
            findings.refuse((*place, "Package"), "is missing", "name a package of Packages")
        elif marble.package not in manifest.packages:
            here: Place = (*place, "Package")
            refuse_undefined(
                findings, here, "the package ", marble.package, "Packages", manifest.packages
            )
        _check_tags(place, marble, ports, findings)
        entries.check_files(place, marble)
        entries.check_env(place, marble)
        for index, argument in enumerate(marble.parameters.argv):
            here = (*place, "Parameters", "Argv", index)
            if "\0" in argument:
                problem = "has a zero byte, which no argument of a program can have"
                findings.refuse(here, problem, "remove the zero byte")
            if "{{" in argument:
                problem = "is passed without a change: arguments are not templates"
                findings.warn(here, problem, "write the template into Env or Files")


def _ports(manifest: ManifestDocument, tag: str) -> frozenset[int]:
    numbers = (port_number(entry.port) for entry in manifest.tls[tag].incoming)
    return frozenset(number for number in numbers if number is not None)


def _number_of_ports(manifest: ManifestDocument, ports: Mapping[str, frozenset[int]]) -> int:
    return sum(len(ports.get(tag, ())) for m in manifest.marbles.values() for tag in m.tls)


def _check_tags(
    place: Place, marble: MarbleDocument, ports: Mapping[str, frozenset[int]], findings: Findings
) -> None:
    tag_of_port: dict[int, str] = {}
    for index, tag in enumerate(marble.tls):
        here = (*place, "TLS", index)
        if tag not in ports:
            refuse_undefined(findings, here, "the tag ", tag, "TLS", ports)
            continue
        for port in sorted(ports[tag]):
            if tag_of_port.setdefault(port, tag) != tag:
                problem = f"has incoming port {port} in common with {quoted(tag_of_port[port])}"
                findings.refuse(here, problem, "remove the port from one of the two tags")


class _Entries:
    """Checks the files and variables of all marble types, with their templates.

    Equal templates are parsed once, because many marble types have the same template.
    """

    def __init__(self, types: _Types, findings: Findings) -> None:
        self._types = types
        self._findings = findings
        self._templates: dict[bytes, Template] = {}
        self._actions = 0

    def check_files(self, place: Place, marble: MarbleDocument) -> None:
        for path, entry in marble.parameters.files.items():
            here = (*place, "Parameters", "Files", path)
            if not path or "\0" in path:
                problem = "is not a path: empty, or with a zero byte"
                self._findings.refuse(here, problem, "write the path of the file")
            self._check(here, entry, in_env=False)

    def check_env(self, place: Place, marble: MarbleDocument) -> None:
        refuse, warn = self._findings.refuse, self._findings.warn
        for name, entry in marble.parameters.env.items():
            here = (*place, "Parameters", "Env", name)
            if not name or "=" in name or "\0" in name:
                problem = "is not a name of a variable: empty, or with = or a zero byte"
                refuse(here, problem, "write the name of the variable")
            if name in _PREDEFINED or (name == "MARBLE_TTLS_CONFIG" and marble.tls):
                warn(here, "has no effect: the coordinator sets this variable", "remove it")
            self._check(here, entry, in_env=True)

    def _check(self, here: Place, entry: str | EntryDocument, *, in_env: bool) -> None:
        if isinstance(entry, str) and "{{" not in entry and "\0" not in entry:
            return  # plain text, the common case
        refuse, types = self._findings.refuse, self._types
        try:
            content = decode_entry(entry)
            if in_env and 0 in content.data:
                no_zero = "has a zero byte, which no variable can have"
                refuse(here, no_zero, "write the value into Files")
            template = Template(()) if content.no_templates else self._template(content.data)
        except BadRequestError as refusal:
            refuse(here, refusal.message, refusal.hint)
            return
        for call in template.calls:
            problem = call_problem(call, in_env=in_env, types=types)
            if problem is not None:
                undefined = _is_undefined(call, types)
                meant = meant_by(call.name, types, self._findings) if undefined else ""
                refuse(here, problem[0], meant or problem[1])

    def _template(self, data: bytes) -> Template:
        """Return the parsed template ``data``.

        Raises ``BadRequestError`` for an invalid template. Also raises this error after
        ``MOST_ACTIONS`` template actions in the manifest, to bound the work.
        """
        template = self._templates.get(data)
        if template is None:
            actions = data.count(b"{{")
            if self._actions + actions > MOST_ACTIONS:
                raise BadRequestError(
                    f"exceeds the maximum of {MOST_ACTIONS} template actions in a manifest",
                    hint="use fewer template actions",
                )
            self._actions += actions
            template = self._templates[data] = parse(data)
        return template


def call_problem(
    call: TemplateCall, *, in_env: bool, types: Mapping[str, SecretType | None]
) -> tuple[str, str] | None:
    """Return the problem of ``call`` in a template, and a hint; None if the call can work.

    ``in_env``: the template is the value of a variable, not of a file. ``types`` has the type of
    each secret by name. A call with a secret of an unknown type (None) has no problem here: the
    type itself is refused. The result equals the result of rendering the template with sample
    values (``docs/reference/manifest.md``, "Templates").
    """
    if call.function not in (_IN_ENV if in_env else _IN_FILES):
        return _wrong_function(call.function, in_env=in_env)
    if call.source is TemplateSource.MARBLERUN:
        return _reserved_problem(call)
    if _is_undefined(call, types):
        problem = f"names the secret {quoted(call.name)}, which is not in Secrets"
        return problem, "define the secret in Secrets"
    secret_type = types[call.name]
    return None if secret_type is None else _secret_problem(call, secret_type)


def _is_undefined(call: TemplateCall, types: Mapping[str, SecretType | None]) -> bool:
    """Return whether ``call`` names a secret that is not in ``types``."""
    return call.source is not TemplateSource.MARBLERUN and call.name not in types


def _wrong_function(function: str, *, in_env: bool) -> tuple[str, str]:
    where, instead = ("Env", "string, hex or base64") if in_env else ("Files", "raw")
    return f"uses {function}, which is not available in {where}", f"use {instead}"


def _reserved_problem(call: TemplateCall) -> tuple[str, str] | None:
    members = _RESERVED.get(call.name)
    if members is None:
        problem = f"names {quoted(call.name)}, which is not in .MarbleRun"
        return problem, nearest(call.name, tuple(_RESERVED))
    if call.member not in members:
        return f"reads .MarbleRun.{call.name}.{call.member}, which is always empty", "use .Cert"
    if call.function == "string":
        return _STRING
    return None


_STRING = "uses string, which accepts only a whole secret of type plain", "use hex or base64"


def _secret_problem(call: TemplateCall, secret_type: SecretType) -> tuple[str, str] | None:
    if call.function == "string" and (secret_type is not SecretType.PLAIN or call.member):
        return _STRING
    if call.function == "pem" and not call.member:
        return "uses pem for a whole secret", "add .Cert, .Public or .Private"
    if call.member == "Cert" and not secret_type.is_certificate:
        return (
            f"reads the certificate of {quoted(call.name)}, which is a {secret_type} and has none",
            "leave .Cert out",
        )
    return None


_DECIMAL = r"[1-9][0-9]{0,4}"
_LARGEST = 65535  # the largest TCP port


def port_number(text: str) -> int | None:
    """Return the port from 1 to 65535 in the decimal ``text``, or None."""
    if not re.fullmatch(_DECIMAL, text) or int(text) > _LARGEST:
        return None
    return int(text)


def check_tls(manifest: ManifestDocument, findings: Findings) -> None:
    """Check ports, addresses, certificates and client authentication in the section ``TLS``.

    A tag is a name in this section. The check includes tags that no marble type names.
    """
    for tag, connections in manifest.tls.items():
        ports = set()
        for index, incoming in enumerate(connections.incoming):
            here: Place = ("TLS", tag, "Incoming", index)
            _check_port(here, incoming.port, findings)
            _check_incoming(here, incoming, manifest, findings)
            if incoming.port in ports:
                problem = "is given twice in this tag"
                findings.refuse((*here, "Port"), problem, "remove one of the two ports")
            ports.add(incoming.port)
        for index, outgoing in enumerate(connections.outgoing):
            here = ("TLS", tag, "Outgoing", index)
            _check_port(here, outgoing.port, findings)
            _check_outgoing(here, outgoing, findings)


def _check_port(here: Place, port: str, findings: Findings) -> None:
    if not port:
        findings.refuse((*here, "Port"), "is missing", _PORT)
    elif port_number(port) is None:
        findings.refuse((*here, "Port"), f"is not a port from 1 to {_LARGEST} in decimal", _PORT)


_PORT = 'write the port as a string, such as "8443"'


def _check_incoming(
    here: Place, entry: Incoming, manifest: ManifestDocument, findings: Findings
) -> None:
    if entry.addr:
        problem = "has no effect: marbles listen on every address"
        findings.warn((*here, "Addr"), problem, "remove Addr")
    if not entry.cert:
        if entry.disable_client_auth:
            hint = "name a cert-* secret, or remove DisableClientAuth"
            findings.refuse((*here, "Cert"), "is missing, but DisableClientAuth is true", hint)
        return
    if not entry.disable_client_auth:
        problem = "must be true together with Cert"
        findings.refuse((*here, "DisableClientAuth"), problem, "set it to true, or remove Cert")
    secret = manifest.secrets.get(entry.cert)
    if secret is None:
        secrets = manifest.secrets
        refuse_undefined(findings, (*here, "Cert"), "the secret ", entry.cert, "Secrets", secrets)
    elif not secret.type.startswith("cert-"):
        problem = f"names the secret {quoted(entry.cert)}, which is not a certificate"
        findings.refuse((*here, "Cert"), problem, "name a secret of a cert-* type")


def _check_outgoing(here: Place, entry: Outgoing, findings: Findings) -> None:
    if not entry.addr:
        findings.refuse((*here, "Addr"), "is missing", "write a host name or an IP address")
    elif ":" in entry.addr:
        problem = "is ambiguous: an IPv6 address, followed by a port"
        findings.warn((*here, "Addr"), problem, "write the name of the host")
    problem = "has no effect on outgoing connections"
    if entry.cert:
        findings.warn((*here, "Cert"), problem, "remove Cert")
    if entry.disable_client_auth:
        findings.warn((*here, "DisableClientAuth"), problem, "remove DisableClientAuth")
