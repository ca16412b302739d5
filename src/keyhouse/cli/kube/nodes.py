"""Judge the nodes of a cluster: which node can run the coordinator, and the reason if not.

A device plugin offers SGX as a resource of the node. Node feature discovery reports TDX and
SEV-SNP as labels. Sources: https://github.com/intel/intel-device-plugins-for-kubernetes
(``sgx.intel.com``), the documentation of AKS and of Alibaba's ACK for their plugins, and
https://kubernetes-sigs.github.io/node-feature-discovery/stable/usage/features.html.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

PRESETS: Final[Mapping[str, str]] = {
    "intel": "sgx.intel.com/epc",
    "azure": "kubernetes.azure.com/sgx_epc_mem_in_MiB",
    "alibaba": "alibabacloud.com/sgx_epc_MiB",
}
"""The resource of the EPC by vendor of the device plugin. Intel's plugin counts bytes."""

_NFD: Final = "feature.node.kubernetes.io/cpu-security."
_LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    "sgx": (f"{_NFD}sgx.enabled", "intel.feature.node.kubernetes.io/sgx"),
    "tdx": (f"{_NFD}tdx.enabled", f"{_NFD}tdx.protected", "intel.feature.node.kubernetes.io/tdx"),
    "snp": (f"{_NFD}sev.snp.enabled", "amd.feature.node.kubernetes.io/snp"),
}
_UNITS: Final = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12} | {
    f"{unit}i": 1 << (10 * power) for power, unit in enumerate(("K", "M", "G", "T"), 1)
}
_QUANTITY: Final = re.compile(r"([0-9]+)([kKMGT]i?)?")
_MIB: Final = 1 << 20
_READY: Final = "Ready"


class Requirement(msgspec.Struct, frozen=True):
    """The hardware that the values of the chart require for the coordinator."""

    technology: str  # sgx, tdx, snp, or "" for a program without special hardware
    resource: str = ""  # of the EPC; "": any known resource
    epc: int = 0  # bytes
    selector: Mapping[str, str] = {}
    tolerations: tuple[Mapping[str, Any], ...] = ()


class NodeReport(msgspec.Struct, frozen=True):
    """A node: its hardware, and the reasons against it."""

    name: str
    hardware: tuple[str, ...]  # sgx, tdx, snp
    vendor: str  # of the device plugin for SGX; "" without a plugin
    epc: int  # bytes
    reasons: tuple[str, ...]  # empty: the node can run the coordinator


def requirement_of(values: Mapping[str, Any]) -> Requirement:
    """Return the hardware that ``values`` require: the chart's values, with all defaults."""
    sgx, words = values["sgx"], list(values["arguments"])
    tolerations, selector = tuple(values["tolerations"]), values["nodeSelector"]
    if sgx["enabled"]:
        own = sgx["resourceKey"]
        key = own or PRESETS[sgx["vendor"]]
        in_bytes = not own and sgx["vendor"] == "intel"
        needed = _bytes(sgx["resources"].get(key, 0)) if in_bytes else sgx["epcMiB"] * _MIB
        return Requirement("sgx", key, needed, selector, tolerations)
    joined = " ".join(words).replace("=", " ")
    found = re.search(r"--platform (tdx|snp)\b", joined)
    return Requirement(found[1] if found else "", "", 0, selector, tolerations)


def report(node: Mapping[str, Any], required: Requirement) -> NodeReport:
    """Judge ``node``, an object of the Kubernetes API, by the ``required`` hardware."""
    labels = node["metadata"].get("labels") or {}
    offered = node.get("status", {}).get("allocatable") or {}
    vendor, epc = _plugin(offered, required.resource)
    hardware = [
        name for name, keys in _LABELS.items() if any(labels.get(k) == "true" for k in keys)
    ]
    if vendor and "sgx" not in hardware:
        hardware.insert(0, "sgx")
    reasons = [*_of_hardware(required, hardware, vendor, epc), *_of_scheduling(node, required)]
    return NodeReport(node["metadata"]["name"], tuple(hardware), vendor, epc, tuple(reasons))


def vendor_of(reports: Sequence[NodeReport]) -> str:
    """Return the first known vendor of a device plugin in ``reports``, or "" without a vendor."""
    found = [each.vendor for each in reports if each.vendor in PRESETS]
    return found[0] if found else ""


def _plugin(offered: Mapping[str, Any], own: str) -> tuple[str, int]:
    """Return the vendor of the device plugin for SGX, and the EPC in bytes.

    ``offered`` has the resources of the node. ``own`` is the name of the only accepted resource; ""
    accepts the resources of all known plugins. If ``own`` is not the resource of a known plugin,
    the vendor is "own". Without an accepted resource on the node, the vendor is "".
    """
    for vendor, key in PRESETS.items():
        amount = _bytes(offered.get(key, 0)) * (1 if vendor == "intel" else _MIB)
        if amount and (not own or own == key):
            return vendor, amount
    amount = _bytes(offered.get(own, 0)) * _MIB if own and own not in PRESETS.values() else 0
    return ("own" if amount else ""), amount


def _of_hardware(
    required: Requirement, hardware: Sequence[str], vendor: str, epc: int
) -> Iterator[str]:
    wanted = required.technology
    if wanted == "sgx" and not vendor:
        if "sgx" in hardware:
            yield (
                f"the processor has SGX, but no device plugin offers {required.resource}: install"
                " the plugin of your vendor, or set sgx.vendor"
            )
        else:
            yield (
                f"nothing reports SGX: no resource {required.resource}, and no label of node"
                " feature discovery; SGX is off in the firmware, or the processor lacks it"
            )
    elif wanted == "sgx" and epc < required.epc:
        yield f"the EPC has {epc // _MIB} MiB, the coordinator needs {required.epc // _MIB} MiB"
    elif wanted in {"tdx", "snp"} and wanted not in hardware:
        yield f"no label of node feature discovery reports {wanted.upper()} ({_LABELS[wanted][0]})"


def _of_scheduling(node: Mapping[str, Any], required: Requirement) -> Iterator[str]:
    labels = node["metadata"].get("labels") or {}
    for name, value in required.selector.items():
        if labels.get(name) != value:
            yield f"the label {name} is {labels.get(name)!r}, nodeSelector requires {value!r}"
    architecture = labels.get("kubernetes.io/arch", "amd64")
    if required.technology and architecture != "amd64":
        yield f"the architecture is {architecture}, {required.technology.upper()} needs amd64"
    if node.get("spec", {}).get("unschedulable"):
        yield "the node is cordoned: kubectl uncordon makes it schedulable"
    for taint in node.get("spec", {}).get("taints") or ():
        if taint["effect"] != "PreferNoSchedule" and not any(
            _tolerates(each, taint) for each in required.tolerations
        ):
            yield f"the taint {taint['key']}:{taint['effect']} is not in tolerations"
    for condition in node.get("status", {}).get("conditions") or ():
        if condition["type"] == _READY and condition["status"] != "True":
            since = condition.get("lastTransitionTime", "an unknown time")
            yield f"the node is not ready since {since}: {condition.get('reason', 'no reason')}"


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Return whether a pod's ``toleration`` matches a node's ``taint``, as for the scheduler."""
    if toleration.get("effect") not in {None, "", taint["effect"]}:
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in {None, "", taint["key"]}
    value = toleration.get("value", "") == taint.get("value", "")
    return bool(value and toleration.get("key") == taint["key"])


def _bytes(quantity: Any) -> int:
    match = _QUANTITY.fullmatch(str(quantity))
    return int(match[1]) * _UNITS[match[2] or ""] if match else 0
