"""What may run and who may do what. Pure: bytes in, a checked Manifest or every problem out."""

from keyhouse.manifest.check import Checked, check
from keyhouse.manifest.convert import decode, fingerprint
from keyhouse.manifest.model import (
    Action,
    Config,
    Entry,
    FeatureGate,
    Incoming,
    Infrastructure,
    Manifest,
    Marble,
    Outgoing,
    Package,
    Parameters,
    RecoveryKey,
    Replicas,
    ResourceType,
    Role,
    SealMode,
    TlsTag,
    User,
)
from keyhouse.manifest.package_update import (
    PackageUpdate,
    check_package_update,
    read_package_update,
    warnings_of_versions,
)
from keyhouse.manifest.permissions import Permissions
from keyhouse.manifest.rules.secrets import MOST_COST
from keyhouse.manifest.template_index import MarbleTemplates, TemplateIndex, index_templates
from keyhouse.manifest.templates import (
    Call,
    MissingValueError,
    SecretValue,
    Source,
    Template,
    Values,
)

__all__ = [
    "MOST_COST",
    "Action",
    "Call",
    "Checked",
    "Config",
    "Entry",
    "FeatureGate",
    "Incoming",
    "Infrastructure",
    "Manifest",
    "Marble",
    "MarbleTemplates",
    "MissingValueError",
    "Outgoing",
    "Package",
    "PackageUpdate",
    "Parameters",
    "Permissions",
    "RecoveryKey",
    "Replicas",
    "ResourceType",
    "Role",
    "SealMode",
    "SecretValue",
    "Source",
    "Template",
    "TemplateIndex",
    "TlsTag",
    "User",
    "Values",
    "check",
    "check_package_update",
    "decode",
    "fingerprint",
    "index_templates",
    "read_package_update",
    "warnings_of_versions",
]
