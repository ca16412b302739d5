"""Get credentials from an exec plugin of the kubeconfig, such as those of cloud providers.

Source: https://kubernetes.io/docs/reference/access-authn-authz/authentication/, "client-go
credential plugins", versions v1 and v1beta1.
"""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from keyhouse.base.secret import Secret
from keyhouse.cli.kube.api.errors import KubeconfigError

_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_PATIENCE: Final = 120  # seconds: some plugins wait for a login in a browser


class ExecCredential(msgspec.Struct, frozen=True):
    """The credentials of a plugin: a token, or a certificate (PEM) with its key."""

    token: Secret | None = None
    certificate: bytes = b""
    key: Secret | None = None


def run_plugin(
    entry: Mapping[str, Any], folder: Path, environment: Mapping[str, str]
) -> ExecCredential:
    """Run the plugin in ``entry``, the field ``exec`` of a user; return the plugin's credentials.

    A command with a slash is relative to ``folder``, the directory of the kubeconfig.
    ``environment``: the variables for the plugin. Raises ``KubeconfigError``. No message contains
    output of the plugin, because this output has credentials.
    """
    version = entry.get("apiVersion")
    if version not in _VERSIONS:
        raise KubeconfigError(
            f"the exec plugin has the version {version!r}, expected {_VERSIONS[0]}",
            hint="update the plugin, and create the kubeconfig again",
        )
    name = str(entry.get("command"))
    command = str(folder / name) if "/" in name else name
    added = {str(each["name"]): str(each["value"]) for each in entry.get("env") or ()}
    request = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    variables = {**environment, **added, "KUBERNETES_EXEC_INFO": json.dumps(request)}
    try:
        ended = subprocess.run(  # noqa: S603 the user's own kubeconfig names the program
            [command, *map(str, entry.get("args") or ())],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=False,
            timeout=_PATIENCE,
        )
    except (OSError, subprocess.TimeoutExpired):
        hint = str(entry.get("installHint") or "install the plugin of your cluster's provider")
        raise KubeconfigError(f"the exec plugin {name} cannot run", hint=hint) from None
    if ended.returncode != 0:
        raise KubeconfigError(
            f"the exec plugin {name} ended with exit code {ended.returncode}, expected 0",
            hint="run the plugin in a shell to see its message, then correct the kubeconfig",
        )
    return _credential(name, ended.stdout)


def _credential(name: str, output: bytes) -> ExecCredential:
    try:
        status = json.loads(output)["status"]
        token, key = status.get("token"), status.get("clientKeyData")
        certificate = str(status.get("clientCertificateData") or "").encode()
    except (ValueError, KeyError, TypeError, AttributeError):
        raise KubeconfigError(
            f"the exec plugin {name} did not print a valid ExecCredential"
        ) from None
    return ExecCredential(
        Secret(str(token).encode()) if token else None,
        certificate,
        Secret(str(key).encode()) if key else None,
    )
