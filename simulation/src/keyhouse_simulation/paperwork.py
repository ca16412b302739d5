"""The collateral of the simulated vendor."""

from datetime import datetime

import msgspec
from cryptography.hazmat.primitives.serialization import Encoding

from keyhouse.attestation import Collateral, Tee
from keyhouse_simulation.certificates import issue_list
from keyhouse_simulation.machine import Machine, pem, sign
from keyhouse_simulation.parameters import QeIdentity, QuoteParameters, TcbInfo, TdxLevel


def issue_collateral(
    machine: Machine, parameters: QuoteParameters, now: datetime, tee: Tee = Tee.SGX
) -> Collateral:
    """Return signed collateral for quotes of ``tee``, with dates relative to ``now``."""
    is_tdx = tee is Tee.TDX
    info = parameters.td_tcb_info if is_tdx else parameters.tcb_info
    identity = parameters.td_qe_identity if is_tdx else parameters.qe_identity
    tcb_info = _json(_tcb_info(info, now))
    qe_identity = _json(_qe_identity(identity, now))
    signer = pem(machine.tcb_signer, machine.root)
    root_list, pck_list = _lists(machine, parameters, now)
    return Collateral(
        pck_crl_issuer_chain=pem(machine.pck_ca, machine.root),
        root_ca_crl=root_list,
        pck_crl=pck_list,
        tcb_info_issuer_chain=signer,
        tcb_info=tcb_info,
        tcb_info_signature=sign(machine.tcb_key, tcb_info.encode()),
        qe_identity_issuer_chain=signer,
        qe_identity=qe_identity,
        qe_identity_signature=sign(machine.tcb_key, qe_identity.encode()),
    )


def _lists(machine: Machine, parameters: QuoteParameters, now: datetime) -> tuple[bytes, bytes]:
    lists = parameters.lists
    by_root = [machine.pck_ca] if lists.revokes_pck_ca else []
    by_root += [machine.tcb_signer] if lists.revokes_tcb_signer else []
    by_ca = [machine.pck] if lists.revokes_pck else []
    root_list = issue_list(machine.root, machine.root_key, by_root, lists, now)
    pck_list = issue_list(machine.pck_ca, machine.pck_ca_key, by_ca, lists, now)
    return root_list.public_bytes(Encoding.DER), pck_list.public_bytes(Encoding.DER)


def _tcb_info(info: TcbInfo, now: datetime) -> dict[str, object]:
    start = now - info.issued_ago
    tcb = {"sgxtcbcomponents": _components(info.cpu_svn), "pcesvn": info.pce_svn}
    if info.tdx is not None:
        tcb["tdxtcbcomponents"] = _components(info.tdx.tee_tcb_svn)
    level = {
        "tcb": tcb,
        "tcbDate": _time(start),
        "tcbStatus": info.status,
        "advisoryIDs": info.advisories,
    }
    return {
        "id": info.id,
        "version": info.version,
        "issueDate": _time(start),
        "nextUpdate": _time(start + info.valid_for),
        "fmspc": info.fmspc.hex(),
        "pceId": info.pce_id.hex(),
        "tcbType": info.tcb_type,
        "tcbEvaluationDataNumber": info.evaluation_number,
        **(_modules(info.tdx, start) if info.tdx is not None else {}),
        "tcbLevels": [level],
    }


def _components(versions: bytes) -> list[dict[str, int]]:
    return [{"svn": svn} for svn in versions]


def _modules(tdx: TdxLevel, start: datetime) -> dict[str, object]:
    module = {
        "mrsigner": tdx.module_signer.hex(),
        "attributes": tdx.module_attributes.hex(),
        "attributesMask": "FFFFFFFFFFFFFFFF",
    }
    level = {
        "tcb": {"isvsvn": tdx.module_version},
        "tcbDate": _time(start),
        "tcbStatus": tdx.module_status,
    }
    line = {"id": f"TDX_{tdx.module_line:02X}", **module, "tcbLevels": [level]}
    return {"tdxModule": module, "tdxModuleIdentities": [line]}


def _qe_identity(identity: QeIdentity, now: datetime) -> dict[str, object]:
    start = now - identity.issued_ago
    level = {
        "tcb": {"isvsvn": identity.security_version},
        "tcbDate": _time(start),
        "tcbStatus": identity.status,
    }
    return {
        "id": identity.id,
        "version": identity.version,
        "issueDate": _time(start),
        "nextUpdate": _time(start + identity.valid_for),
        "tcbEvaluationDataNumber": identity.evaluation_number,
        "miscselect": identity.misc_select.hex(),
        "miscselectMask": "FFFFFFFF",
        "attributes": identity.attributes.hex(),
        "attributesMask": "FBFFFFFFFFFFFFFF0000000000000000",
        "mrsigner": identity.signer.hex(),
        "isvprodid": identity.product_id,
        "tcbLevels": [level],
    }


def _json(document: dict[str, object]) -> str:
    return msgspec.json.encode(document).decode()


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
