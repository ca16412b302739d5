"""The manifest: which workloads may run, and which user may do what.

Pure: bytes in, a checked ``Manifest`` or every problem out. ``check`` verifies an uploaded manifest
with all rules. ``decode`` reads a manifest that passed the check of an earlier version.
"""

from keyhouse.manifest.convert import decode, fingerprint
from keyhouse.manifest.indexes import MarbleTemplates, Permissions, TemplateIndex, index_templates
from keyhouse.manifest.model import (
    Action,
    Anchored,
    Config,
    FeatureGate,
    Incoming,
    Manifest,
    MarbleDefinition,
    MarbleParameters,
    OnEnd,
    Outgoing,
    Renewal,
    Replicas,
    ResourceType,
    SealMode,
    ServeCondition,
    Transparency,
    TrustDocument,
    User,
)
from keyhouse.manifest.templates import MissingValueError, Template, TemplateSource, Values
from keyhouse.wire.package import Package
