"""The manifest: which workloads may run, and which user may do what.

Pure: bytes in, a checked ``Manifest`` or every problem out. ``check`` verifies an uploaded manifest
with all rules. ``decode`` reads a manifest that passed the check of an earlier version.
"""

from typing import TYPE_CHECKING

from keyhouse.base.lazy_imports import on_demand
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
    fingerprint,
)
from keyhouse.manifest.templates import MissingValueError, Template, TemplateSource, Values
from keyhouse.wire.package import Package

# Imported with the first manifest: a start without a manifest needs none of its documents.
if TYPE_CHECKING:
    from keyhouse.manifest.convert import decode
else:
    __getattr__, __dir__, __all__ = on_demand(__name__, {"keyhouse.manifest.convert": "decode"})
