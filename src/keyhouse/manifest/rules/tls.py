"""Rules for ``TLS``, the transparent TLS of workloads."""

import re

from keyhouse.base.findings import Findings
from keyhouse.base.printable import Place, quoted
from keyhouse.manifest.document import ManifestDocument
from keyhouse.manifest.model import Incoming, Outgoing
from keyhouse.manifest.rules.references import refuse_undefined

_DECIMAL = r"[1-9][0-9]{0,4}"
_LARGEST = 65535  # the largest TCP port


def port_number(text: str) -> int | None:
    """Return the port from 1 to 65535 in the decimal ``text``, or None."""
    if not re.fullmatch(_DECIMAL, text) or int(text) > _LARGEST:
        return None
    return int(text)


def check_tls(manifest: ManifestDocument, findings: Findings) -> None:
    """Check ports, addresses, certificates and client authentication of all TLS tags.

    This includes tags that no marble type names.
    """
    for tag, connections in manifest.tls.items():
        ports = set()
        for index, incoming in enumerate(connections.incoming):
            here: Place = ("TLS", tag, "Incoming", index)
            _check_port(here, incoming.port, findings)
            _check_incoming(here, incoming, manifest, findings)
            if incoming.port in ports:
                findings.refuse((*here, "Port"), "is given twice in this tag")
            ports.add(incoming.port)
        for index, outgoing in enumerate(connections.outgoing):
            here = ("TLS", tag, "Outgoing", index)
            _check_port(here, outgoing.port, findings)
            _check_outgoing(here, outgoing, findings)


def _check_port(here: Place, port: str, findings: Findings) -> None:
    if not port:
        findings.refuse((*here, "Port"), "is missing", 'a string, such as "8443"')
    elif port_number(port) is None:
        findings.refuse((*here, "Port"), f"is not a port from 1 to {_LARGEST} in decimal")


def _check_incoming(
    here: Place, entry: Incoming, manifest: ManifestDocument, findings: Findings
) -> None:
    if entry.addr:
        findings.warn((*here, "Addr"), "has no effect: marbles listen on every address")
    if not entry.cert:
        if entry.disable_client_auth:
            hint = "name a cert-* secret, or remove DisableClientAuth"
            findings.refuse((*here, "Cert"), "is missing, but DisableClientAuth is true", hint)
        return
    if not entry.disable_client_auth:
        findings.refuse((*here, "DisableClientAuth"), "must be true together with Cert")
    secret = manifest.secrets.get(entry.cert)
    if secret is None:
        secrets = manifest.secrets
        refuse_undefined(findings, (*here, "Cert"), "the secret ", entry.cert, "Secrets", secrets)
    elif not secret.type.startswith("cert-"):
        problem = f"names the secret {quoted(entry.cert)}, which is no certificate"
        findings.refuse((*here, "Cert"), problem, "name a secret of a cert-* type")


def _check_outgoing(here: Place, entry: Outgoing, findings: Findings) -> None:
    if not entry.addr:
        findings.refuse((*here, "Addr"), "is missing", "a host name or an IP address")
    elif ":" in entry.addr:
        hint = "name the host instead"
        findings.warn((*here, "Addr"), "is ambiguous: an IPv6 address with a port behind it", hint)
    if entry.cert:
        findings.warn((*here, "Cert"), "has no effect on outgoing connections")
    if entry.disable_client_auth:
        findings.warn((*here, "DisableClientAuth"), "has no effect on outgoing connections")
