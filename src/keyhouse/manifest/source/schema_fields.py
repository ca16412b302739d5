"""The meaning of each field of a manifest, and the rules of its values, for the JSON Schema."""

from collections.abc import Mapping
from typing import Final

import msgspec

from keyhouse.manifest import document, model
from keyhouse.manifest.rules.access import MOST_RECOVERY_KEYS
from keyhouse.manifest.rules.config import ALLOWED_OPERATIONS, ALLOWED_SECONDS, ORIGIN, PLATFORM
from keyhouse.manifest.rules.renewal import ALLOWED_MINUTES, ALLOWED_OVERLAP, SIGNALS
from keyhouse.manifest.source import schema_rules as rules
from keyhouse.manifest.source.schema_rules import Rule
from keyhouse.wire.kinds.snp import PRODUCTS, SIGNING_KEYS, VMPLS, SnpIdentity, SnpTcb
from keyhouse.wire.kinds.tdx import TdxIdentity
from keyhouse.wire.package import Package
from keyhouse.wire.secret_types import AddressRange, Extension, NameAttribute, SecretType
from keyhouse.wire.tcb_status import TcbStatus


class SchemaField(msgspec.Struct, frozen=True):
    """A field of a manifest: its meaning for people, and rules beyond the JSON type."""

    text: str
    rule: Rule = {}  # for a value other than null
    each: Rule = {}  # for each item of a list, or value of a map
    names: Rule = {}  # for each key of a map
    given: bool = False  # required, and not null?


class Shape(msgspec.Struct, frozen=True):
    """An object in a manifest: its meaning for people, its fields, and rules between the fields."""

    text: str
    fields: Mapping[str, SchemaField]
    between: Rule = {}


_TDX_FIELDS: Final = {
    "MRTD": "Measurement of the VM's first memory: its firmware. 96 hex digits.",
    "RTMR0": "What the firmware measured: its settings, ACPI tables, boot variables.",
    "RTMR1": "What the firmware started: the kernel, or a boot loader.",
    "RTMR2": "What the boot loader or the kernel measured: command line, initial RAM disk.",
    "RTMR3": "What the running system measured.",
    "MRConfigID": "Configuration ID that the host set when it started the VM.",
    "MROwner": "Owner ID that the host set when it started the VM.",
    "MROwnerConfig": "ID of the owner's configuration, set as the two before.",
    "MRSeam": "Measurement of the TDX module.",
    "TDAttributes": "TD attributes, 16 hex digits as in the quote. Debug is always refused.",
    "XFAM": "Features of the processor that the VM can use, 16 hex digits as in the quote.",
}

_SNP_FIELDS: Final = {
    "Measurement": "Measurement of the VM's first memory. 96 hex digits.",
    "HostData": "Data that the host set when it started the VM. 64 hex digits.",
    "IDKeyDigest": "Digest of the key that signed the VM's ID block; zeros without one.",
    "AuthorKeyDigest": "Digest of the key that signed the ID key; zeros without one.",
    "FamilyID": "Family ID of the ID block, 32 hex digits.",
    "ImageID": "Image ID of the ID block, 32 hex digits.",
    "Policy": "Guest policy, 16 hex digits as in the report. Debug is always refused.",
}

_ENTRY_TEXT: Final = "text with template actions, or an object with Data, Encoding, NoTemplates"
_NO_EFFECT: Final = SchemaField("Has no effect: the coordinator decides it.", {"deprecated": True})
_NO_EFFECT_HERE: Final = {"deprecated": True}


def _ranged(allowed: tuple[int, int]) -> Rule:
    """Return the rule of a number that is 0, or within ``allowed``."""
    return {"anyOf": [{"const": 0}, {"minimum": allowed[0], "maximum": allowed[1]}]}


def _texts(text: str, each: Rule | None = None) -> SchemaField:
    return SchemaField(text, each=each or {})


DESCRIBED: Final[Mapping[type[msgspec.Struct], Shape]] = {
    document.ManifestDocument: Shape(
        "What may run in a cluster, and who may do what.",
        {
            "Packages": SchemaField(
                "Enclave programs and confidential VMs that are allowed, by names of your choice.",
                {"minProperties": 1},
                given=True,
            ),
            "Infrastructures": SchemaField("Restrictions of platforms. Kept, not enforced yet."),
            "Marbles": SchemaField(
                "Workload types, by name.",
                {"minProperties": 1},
                names={"minLength": 1},
                given=True,
            ),
            "Secrets": SchemaField(
                "Keys, certificates and data: generated, or uploaded by users. By name.",
                names={"minLength": 1},
            ),
            "Users": SchemaField("Client identities, by name."),
            "Roles": SchemaField("Permissions, by name; users refer to them."),
            "RecoveryKeys": SchemaField(
                "RSA public keys, PEM (PUBLIC KEY), by the name of the holder: who can recover "
                "the coordinator's state on another machine.",
                {"maxProperties": MOST_RECOVERY_KEYS},
                each={"pattern": "-----BEGIN PUBLIC KEY-----"},
            ),
            "TLS": SchemaField("Transparent TLS of workloads, by tag; marbles refer to tags."),
            "Config": SchemaField("Options."),
        },
    ),
    Package: Shape(
        "An enclave program: UniqueID, or SignerID with ProductID and SecurityVersion. "
        "Or a confidential VM: TDX, or SNP.",
        {
            "Debug": SchemaField(
                "Equal to the enclave's debug attribute. Quotes of debug enclaves are refused."
            ),
            "UniqueID": SchemaField("MRENCLAVE, 64 hex digits. Excludes the other identity."),
            "SignerID": SchemaField("MRSIGNER, 64 hex digits."),
            "ProductID": SchemaField("ISVPRODID, equal."),
            "SecurityVersion": SchemaField("ISVSVN, at least."),
            "AcceptedTCBStatuses": _texts(
                "TCB statuses of platforms that are accepted beside UpToDate. "
                "Not given: SWHardeningNeeded.",
                {"enum": [*map(str, TcbStatus)]},
            ),
            "AcceptedAdvisories": _texts(
                "With the status SWHardeningNeeded, the only advisories that are accepted, such "
                "as INTEL-SA-00615. Empty: all."
            ),
            "TDX": SchemaField("A confidential VM (Intel TDX) instead of an enclave."),
            "SNP": SchemaField("A confidential VM (AMD SEV-SNP) instead of an enclave."),
        },
        rules.IDENTITY,
    ),
    TdxIdentity: Shape(
        "Who a confidential VM is. Each field is equal, or is not given and not compared.",
        {
            field: SchemaField(text, rules.hex_of(TdxIdentity, field), given=field == "MRTD")
            for field, text in _TDX_FIELDS.items()
        },
    ),
    SnpIdentity: Shape(
        "Who a confidential VM is, and what its platform has to have. Fields of hex digits are "
        "equal, or are not given and not compared.",
        {
            field: SchemaField(text, rules.hex_of(SnpIdentity, field), given=field == "Measurement")
            for field, text in _SNP_FIELDS.items()
        }
        | {
            "Product": SchemaField(
                "Line of processors. Bergamo and Siena are Genoa.",
                {"enum": [*PRODUCTS]},
                given=True,
            ),
            "MinimumTCB": SchemaField(
                "The lowest versions of firmware that are admitted.", given=True
            ),
            "VMPL": SchemaField(
                "Privilege level in the VM at which the report was asked for. Not given: 0.",
                {"enum": [*VMPLS]},
            ),
            "SigningKey": SchemaField(
                "The key that signs the reports. Not given: VCEK.", {"enum": [*SIGNING_KEYS]}
            ),
            "MinimumGuestSVN": SchemaField(
                "The lowest GUEST_SVN, which the VM's ID block states. Not given: 0."
            ),
            "AliasCheckComplete": SchemaField(
                "The platform's firmware must have checked that no memory has two addresses "
                "(ALIAS_CHECK_COMPLETE). Not given: false."
            ),
        },
    ),
    SnpTcb: Shape(
        "Versions of firmware, each 0 to 255.",
        {
            name: SchemaField(f"Version of {what}.", rules.VERSION, given=name != "FMC")
            for name, what in {
                "Bootloader": "the bootloader of the security processor",
                "TEE": "its operating system",
                "SNP": "the SNP firmware",
                "Microcode": "the microcode",
                "FMC": "the first mutable code, of Turin alone",
            }.items()
        },
    ),
    model.Infrastructure: Shape(
        "A restriction of platforms. Kept, not enforced yet.",
        {
            "CPUSVN": SchemaField("Security version of the processor, 16 bytes in base64."),
            "QESVN": SchemaField("Version of the quoting enclave."),
            "PCESVN": SchemaField("Version of the provisioning certification enclave."),
            "RootCA": SchemaField("Root certificate of the provisioning CA, in base64."),
        },
    ),
    document.MarbleDocument: Shape(
        "A workload type.",
        {
            "Package": SchemaField("Name of one of Packages.", {"minLength": 1}, given=True),
            "MaxActivations": SchemaField(
                "Most successful activations, restarts included. 0: no limit."
            ),
            "Parameters": SchemaField("What the workload is started with."),
            "TLS": _texts("Tags of TLS."),
            "DisableSecretBinding": SchemaField("Derive per-marble keys without this type's name."),
            "Renewal": SchemaField(
                "How running workloads renew their certificates. Not given: they do not."
            ),
        },
    ),
    model.Renewal: Shape(
        "The renewal of certificates while a workload runs.",
        {
            "ValidMinutes": SchemaField(
                f"Minutes for which a certificate is valid. 0: {model.VALID_MINUTES}.",
                _ranged(ALLOWED_MINUTES),
            ),
            "OnChange": SchemaField("How the program loads changed files. Not given: it does not."),
            "OnEnd": SchemaField(
                "Whether a program without a valid certificate runs on: Keep (the default), Stop.",
                {"enum": ["", *(each.value for each in model.OnEnd)]},
            ),
        },
    ),
    model.OnChange: Shape(
        "The reload of a program: one of these.",
        {
            "Signal": SchemaField("A signal to the program.", {"enum": ["", *SIGNALS]}),
            "Command": _texts("A command with an absolute path, and its arguments."),
            "Restart": SchemaField("Start the program again."),
        },
        {"maxProperties": 1},
    ),
    model.TrustDocument: Shape(
        "The trust between workloads across an update.",
        {
            "OverlapHours": SchemaField(
                "Hours for which workloads trust the former marble root. 0: none.",
                {"minimum": ALLOWED_OVERLAP[0], "maximum": ALLOWED_OVERLAP[1]},
            ),
        },
    ),
    document.ParametersDocument: Shape(
        "Files, environment and arguments of a workload.",
        {
            "Files": SchemaField(
                f"Path to content: {_ENTRY_TEXT}.",
                names={"minLength": 1, "pattern": "^[^\\u0000]+$"},
            ),
            "Env": SchemaField(
                f"Name of a variable to content: {_ENTRY_TEXT}.",
                names={"pattern": "^[^=\\u0000]+$"},
            ),
            "Argv": SchemaField(
                "The complete argument vector; never a template.",
                each={"pattern": rules.NO_ZERO_BYTE["pattern"]},
            ),
        },
    ),
    document.EntryDocument: Shape(
        "Content of a file or variable.",
        {
            "Data": SchemaField("The content, in the given encoding."),
            "Encoding": SchemaField("How Data is written.", {"enum": ["string", "base64", "hex"]}),
            "NoTemplates": SchemaField("Deliver the content as it is."),
        },
    ),
    document.SecretDocument: Shape(
        "A key, a certificate with its key, or data.",
        {
            "Type": SchemaField(
                "What it is.", {"enum": [kind.value for kind in SecretType]}, given=True
            ),
            "Size": SchemaField(
                "Bits. symmetric-key: a multiple of 8; cert-rsa: 1024 to 8192; cert-ecdsa: 224, "
                "256, 384 or 521; others: none."
            ),
            "Shared": SchemaField("One value for all workloads; otherwise one for each."),
            "UserDefined": SchemaField("Uploaded by a user, never generated."),
            "Cert": SchemaField(
                "Certificate template: an object, or a DER certificate in base64 whose fields "
                "serve as one."
            ),
            "ValidFor": SchemaField("Validity in days; excludes Cert.NotAfter. Neither: 365."),
            "Private": SchemaField(
                "First value of a UserDefined secret, in base64. Anyone who reads the manifest can "
                "read it."
            ),
            "Public": SchemaField("Equal to Private, or left out."),
        },
        {"allOf": [*rules.SECRET_RULES]},
    ),
    document.TemplateDocument: Shape(
        "A certificate template. What is left out has its default.",
        {
            "Subject": SchemaField("Distinguished name."),
            "DNSNames": _texts("Not given: localhost. []: none.", rules.PRINTABLE),
            "IPAddresses": _texts("Not given: 127.0.0.1 and ::1. []: none."),
            "EmailAddresses": _texts("Addresses as subject alternative names.", rules.PRINTABLE),
            "URIs": SchemaField("URIs in parts, as subject alternative names."),
            "KeyUsage": SchemaField(
                "Sum of 1 digitalSignature, 2 contentCommitment, 4 keyEncipherment, 8 "
                "dataEncipherment, 16 keyAgreement, 32 keyCertSign, 64 cRLSign, 128 encipherOnly, "
                "256 decipherOnly. 0: 1, or 33 with IsCA.",
                {"minimum": 0, "maximum": 511},
            ),
            "ExtKeyUsage": SchemaField(
                "0 any, 1 serverAuth, 2 clientAuth, 3 codeSigning, 4 emailProtection, 5 "
                "ipsecEndSystem, 6 ipsecTunnel, 7 ipsecUser, 8 timeStamping, 9 OCSPSigning, 10 "
                "msSGC, 11 nsSGC, 12 msCodeCom, 13 msKernelCode. Not given: 1 and 2.",
                each={"minimum": 0, "maximum": 13},
            ),
            "UnknownExtKeyUsage": SchemaField(
                "Further usages as OIDs, lists of arcs.", each=rules.OID
            ),
            "NotAfter": SchemaField(
                "End of validity, RFC 3339 with a zone, such as 2035-01-01T00:00:00Z.",
                {"pattern": rules.TIME},
            ),
            "IsCA": SchemaField(
                "Whether the certificate may sign others, for names that are not the coordinator's."
            ),
            "MaxPathLen": SchemaField(
                "Most CA certificates below this one; 0 and -1: no limit.", {"minimum": -1}
            ),
            "MaxPathLenZero": SchemaField("Whether a MaxPathLen of 0 means none below."),
            "SubjectKeyId": SchemaField("Subject key identifier, in base64."),
            "OCSPServer": _texts("URLs of OCSP responders.", rules.PRINTABLE),
            "IssuingCertificateURL": _texts("URLs of the issuer's certificate.", rules.PRINTABLE),
            "CRLDistributionPoints": _texts("URLs of revocation lists.", rules.PRINTABLE),
            "PermittedDNSDomainsCritical": SchemaField(
                "Whether the name constraints are critical."
            ),
            "PermittedDNSDomains": _texts("Name constraints: only these DNS domains."),
            "ExcludedDNSDomains": _texts("Name constraints: not these DNS domains."),
            "PermittedEmailAddresses": _texts("Name constraints: only these addresses."),
            "ExcludedEmailAddresses": _texts("Name constraints: not these addresses."),
            "PermittedURIDomains": _texts("Name constraints: only URIs of these domains."),
            "ExcludedURIDomains": _texts("Name constraints: no URIs of these domains."),
            "PermittedIPRanges": SchemaField("Name constraints: only these IP ranges."),
            "ExcludedIPRanges": SchemaField("Name constraints: not these IP ranges."),
            "Policies": _texts("Certificate policies, dotted OIDs.", rules.DOTTED_OID),
            "ExtraExtensions": SchemaField("Further extensions, each OID once."),
            "SignatureAlgorithm": SchemaField(
                "10, 11, 12: ECDSA with SHA-256, SHA-384, SHA-512. 0: what fits the key.",
                {"enum": [0, 10, 11, 12]},
            ),
            "PolicyIdentifiers": SchemaField("Further policies as lists of arcs.", each=rules.OID),
            **dict.fromkeys(
                (
                    "AuthorityKeyId",
                    "BasicConstraintsValid",
                    "Extensions",
                    "Issuer",
                    "NotBefore",
                    "PublicKey",
                    "PublicKeyAlgorithm",
                    "Raw",
                    "RawIssuer",
                    "RawSubject",
                    "RawSubjectPublicKeyInfo",
                    "RawTBSCertificate",
                    "SerialNumber",
                    "Signature",
                    "UnhandledCriticalExtensions",
                    "Version",
                    "InhibitAnyPolicy",
                    "InhibitAnyPolicyZero",
                    "InhibitPolicyMapping",
                    "InhibitPolicyMappingZero",
                    "PolicyMappings",
                    "RequireExplicitPolicy",
                    "RequireExplicitPolicyZero",
                ),
                _NO_EFFECT,
            ),
        },
    ),
    document.SubjectDocument: Shape(
        "A distinguished name.",
        {
            "Country": _texts("Two letters each.", {"pattern": "^[A-Za-z]{2}$"}),
            "Organization": _texts("O."),
            "OrganizationalUnit": _texts("OU."),
            "Locality": _texts("L."),
            "Province": _texts("ST."),
            "StreetAddress": _texts("street."),
            "PostalCode": _texts("postalCode."),
            "CommonName": SchemaField("CN, at most 64 characters.", {"maxLength": 64}),
            "SerialNumber": SchemaField("serialNumber."),
            "ExtraNames": SchemaField(
                "Further attributes; one of them replaces the field of its type."
            ),
            "Names": SchemaField("Has no effect: use ExtraNames.", _NO_EFFECT_HERE),
        },
    ),
    NameAttribute: Shape(
        "An attribute of a distinguished name.",
        {
            "Type": SchemaField(
                "OID as a list of arcs, such as [2, 5, 4, 12].", rules.OID, rules.ARC
            ),
            "Value": SchemaField("The text."),
        },
    ),
    document.UriDocument: Shape(
        "A URI in parts.",
        {
            "Scheme": SchemaField("Such as spiffe.", {"minLength": 1}, given=True),
            "Host": SchemaField("The host, or empty."),
            "Path": SchemaField("The path, or empty."),
            **dict.fromkeys(
                (
                    "Opaque",
                    "User",
                    "RawPath",
                    "OmitHost",
                    "ForceQuery",
                    "RawQuery",
                    "Fragment",
                    "RawFragment",
                ),
                SchemaField("Not supported: has to be empty.", {"deprecated": True}),
            ),
        },
    ),
    AddressRange: Shape(
        "A range of IP addresses.",
        {
            "IP": SchemaField("The first address."),
            "Mask": SchemaField("As many mask bytes as the address has, in base64."),
        },
    ),
    Extension: Shape(
        "An extension as it is in the certificate.",
        {
            "Id": SchemaField("OID as a list of arcs.", rules.OID, rules.ARC),
            "Value": SchemaField("DER, in base64."),
            "Critical": SchemaField("Whether who does not know it must refuse."),
        },
    ),
    document.UserDocument: Shape(
        "A client identity.",
        {
            "Certificate": SchemaField(
                "PEM; compared byte by byte, regardless of who signed it.",
                {"pattern": "-----BEGIN CERTIFICATE-----"},
                given=True,
            ),
            "Roles": _texts("Names of Roles; permissions add up."),
        },
    ),
    document.RoleDocument: Shape(
        "Actions on resources, by exact name.",
        {
            "ResourceType": SchemaField(
                "What the names are names of.",
                {"enum": [kind.value for kind in model.ResourceType]},
                given=True,
            ),
            "ResourceNames": _texts("The resources. Manifest: none."),
            "Actions": _texts(
                "Packages: UpdateSecurityVersion. Secrets: ReadSecret, WriteSecret. Manifest: "
                "UpdateManifest. Marbles: RevokeWorkload."
            ),
        },
        {
            "allOf": [
                rules.role_rule(model.ResourceType.PACKAGES, "UpdateSecurityVersion"),
                rules.role_rule(model.ResourceType.SECRETS, "ReadSecret", "WriteSecret"),
                rules.role_rule(model.ResourceType.MANIFEST, "UpdateManifest"),
                rules.role_rule(model.ResourceType.MARBLES, "RevokeWorkload"),
            ]
        },
    ),
    model.TlsTag: Shape(
        "Connections that transparent TLS covers.",
        {
            "Incoming": SchemaField("Ports on which the workload listens."),
            "Outgoing": SchemaField("Peers to which it connects."),
        },
    ),
    model.Incoming: Shape(
        "A port on which a workload listens.",
        {
            "Port": SchemaField("Decimal, as text.", {"pattern": rules.PORT}, given=True),
            "Cert": SchemaField("A cert-* secret to be shown; then DisableClientAuth is true."),
            "DisableClientAuth": SchemaField("Ask for no client certificate; only with Cert."),
            "Addr": SchemaField("Has no effect here.", _NO_EFFECT_HERE),
        },
        {"allOf": [*rules.CERT_OF_PORT]},
    ),
    model.Outgoing: Shape(
        "A peer to which a workload connects.",
        {
            "Port": SchemaField("Decimal, as text.", {"pattern": rules.PORT}, given=True),
            "Addr": SchemaField("Host name or IP address.", {"minLength": 1}, given=True),
            "Cert": SchemaField("Has no effect here.", _NO_EFFECT_HERE),
            "DisableClientAuth": SchemaField("Has no effect here.", _NO_EFFECT_HERE),
        },
    ),
    document.ConfigDocument: Shape(
        "Options.",
        {
            "SealMode": SchemaField(
                "Which enclaves can read the stored state: ProductKey (the default) those of the "
                "same signer and product, UniqueKey the same program alone, Disabled: nothing is "
                "stored.",
                {"enum": ["", *(mode.value for mode in model.SealMode)]},
            ),
            "FeatureGates": _texts(
                "What is switched on.",
                {
                    "enum": [
                        model.FeatureGate.SIGN_QUOTE_ENDPOINT.value,
                        model.FeatureGate.MONOTONIC_COUNTER.value,
                    ]
                },
            ),
            "UpdateThreshold": SchemaField("How many users must agree to a full update. 0: all."),
            "RecoveryThreshold": SchemaField(
                "How many recovery keys are needed. 0: all; never 1.", {"not": {"const": 1}}
            ),
            "RotateRootSecret": SchemaField(
                "Replace root secret and symmetric keys with an update."
            ),
            "Replicas": SchemaField(
                "Which other coordinators on the same store are handed the data key. Not given: "
                "none."
            ),
            "Transparency": SchemaField(
                "What outsiders can verify: who witnesses the transparency log, what waits for "
                "them, and whether approvals are signed. Not given: nobody, nothing, no."
            ),
            "Trust": SchemaField(
                "How long workloads trust a former marble root. Not given: not at all."
            ),
        },
    ),
    model.Transparency: Shape(
        "Witnesses of the transparency log, what waits for them, and whether approvals are signed.",
        {
            "Witnesses": SchemaField(
                "The text of a policy (C2SP tlog-policy): lines witness, group and quorum. Empty: "
                "none."
            ),
            "Serve": SchemaField(
                "When secrets are served: Always (the default), or Witnessed: only while a quorum "
                "of the witnesses has cosigned the newest start and the anchors.",
                {"enum": ["", *(each.value for each in model.ServeCondition)]},
            ),
            "LeaseSeconds": SchemaField(
                "Seconds after which witnesses must have cosigned an anchor. 0: "
                f"{model.LEASE_SECONDS}.",
                _ranged(ALLOWED_SECONDS),
            ),
            "LeaseOperations": SchemaField(
                "Reads of secrets, activations and counts after which witnesses must have cosigned "
                f"an anchor. 0: {model.LEASE_OPERATIONS}.",
                _ranged(ALLOWED_OPERATIONS),
            ),
            "AnchorBefore": _texts(
                "What is answered only once witnesses have cosigned that it happened.",
                {"enum": [each.value for each in model.Anchored]},
            ),
            "Origin": SchemaField(
                "The name of the transparency log, fixed by the first manifest. Empty: made from "
                "the root certificate.",
                {"pattern": f"^(?:{ORIGIN.pattern})?$"},
            ),
            "SignedApprovals": SchemaField(
                "Whether users have to sign, with the key of their certificate, what they decide "
                "about updates."
            ),
        },
    ),
    model.Replicas: Shape(
        "Other coordinators that are handed the data key, once their quotes show all of this.",
        {
            "Code": SchemaField(
                "Who they may be: identities as in Packages. None: exactly the code and settings "
                "of the one that hands it over."
            ),
            "AcceptedTCBStatuses": _texts(
                "TCB statuses of their platforms that are accepted beside UpToDate. Not given: "
                "none.",
                {"enum": [*map(str, TcbStatus)]},
            ),
            "Platforms": _texts(
                "Their platforms: PPID, or CHIP_ID of AMD, in hex. None: any.",
                {"pattern": PLATFORM},
            ),
        },
    ),
}
