"""What may run and who may do what. Pure: bytes in, a checked Manifest or every problem out."""

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
from keyhouse.manifest.permissions import Permissions
from keyhouse.manifest.template_index import MarbleTemplates, TemplateIndex, index_templates
from keyhouse.manifest.templates import MissingValueError, Source, Template, Values
from keyhouse.wire.package import Package
