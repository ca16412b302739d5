"""What may run and who may do what. Pure: bytes in, a checked Manifest or every problem out."""

from keyhouse.manifest.check import Checked, check
from keyhouse.manifest.convert import decode, fingerprint
from keyhouse.manifest.model import (
    Action,
    Anchored,
    Config,
    FeatureGate,
    Incoming,
    Manifest,
    Marble,
    Outgoing,
    Parameters,
    Replicas,
    ResourceType,
    SealMode,
    Serving,
    Transparency,
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
from keyhouse.manifest.templates import MissingValueError, Source, Template, Values
from keyhouse.wire.package import Package
