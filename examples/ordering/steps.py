"""Steps: start the shop, buy apples, and see refusals for all other programs."""

from pathlib import Path
from typing import Final

from cryptography import x509

from examples.cluster import Cluster, cluster
from examples.demo.people import make_user
from examples.demo.ports import free_port
from examples.demo.screen import Screen
from examples.demo.shell import typed
from examples.workload import Workload
from keyhouse_simulation.ordering import FOLDER

__all__ = ["show"]

_HERE: Final = Path(__file__).parent
_SERVING: Final = "serving at"


class _Shop:
    """The ports of the services."""

    def __init__(self) -> None:
        self.orders = str(free_port())
        self.sibling = str(free_port())
        self.stock = str(free_port())


def show(screen: Screen, folder: Path) -> None:
    """Run the example in the new ``folder``.

    Raises ``UnexpectedError`` if a claim of a step is false.
    """
    shop = _Shop()
    with cluster(screen, folder, FOLDER, _HERE) as found:
        stock = _start(found, shop)
        receipt = _buy(found, shop)
        _refuse_others(found, shop, stock)
        _refuse_other_packages(found)
        _keep_keys_apart(found, shop, receipt)


def _start(found: Cluster, shop: _Shop) -> Workload:
    """Start the coordinator and both services; return the stock service."""
    found.screen.step(
        "Start a cluster",
        "The manifest of this coordinator has two packages and two types of workloads. keyhouse run"
        " verifies the coordinator, joins, and becomes the program. (The files *.enclave.json state"
        " the measurements, because a simulated machine cannot measure a program.)",
    )
    found.start_coordinator()
    words = found.joining("stock", "stock.enclave.json", "stock.example.com")
    stock = found.launch("stock", *words, "python", "../shop/stock.py", shop.stock, until=_SERVING)
    found.launch("orders", *_orders(found), shop.orders, shop.stock, until=_SERVING)
    delivered = {path.name for path in (found.folder / "orders").iterdir()}
    found.screen.holds(
        delivered == {"tls.key", "tls.pem", "uuid"},
        "both services serve, with certificates and keys in the files of the manifest",
    )
    return stock


def _buy(found: Cluster, shop: _Shop) -> str:
    """Buy apples; return the receipt."""
    found.screen.step(
        "Buy something",
        "The customer accepts only a certificate for orders.example.com below the coordinator's"
        " root. orders.py requests the goods from stock.py. Both programs send a certificate, and"
        " check the deployment and the type of workload in the certificate of the peer.",
    )
    said = found.stage.command(f"python shop/customer.py {shop.orders} buy apples").output.decode()
    _, sold, receipt = said.strip().rpartition("apples: 1 left, receipt ")
    found.screen.holds(bool(sold), "one sold, one left")
    return receipt


def _refuse_others(found: Cluster, shop: _Shop, stock: Workload) -> None:
    found.screen.step(
        "Try it without being a marble",
        "A program on the same machine can connect to the stock service, but receives no goods.",
    )
    stage, ask = found.stage, f"python shop/stranger.py {shop.stock}"
    stage.command(ask, code=1)
    _turned_away(found, stock, "did not return a certificate")
    make_user(found.folder, "orders")
    found.screen.say()
    found.screen.say("With a self-made certificate for the name orders:")
    stage.command(f"{ask} orders.crt orders.key", code=1)
    _turned_away(found, stock, "certificate verify failed")
    found.screen.say()
    found.screen.say("With the real certificate of a workload of another type, stock:")
    said = stage.command(f"{ask} stock/tls.pem stock/tls.key").output
    found.screen.holds(b" 403 " in said, "refused: the type is in the certificate")


def _turned_away(found: Cluster, stock: Workload, reason: str) -> None:
    stock.wait_for(reason)
    said = found.stage.command("tail -n 1 stock.log").output.decode()
    found.screen.holds(reason in said, "the log of the stock service has the reason")


def _refuse_other_packages(found: Cluster) -> None:
    found.screen.step(
        "Join with another program",
        "Only a program with the measurement of orders joins as orders. A stock service with a too"
        " low security version does not join either.",
    )
    for kind, enclave, rule in (
        ("orders", "other.enclave.json", "UniqueID"),
        ("stock", "old-stock.enclave.json", "SecurityVersion"),
    ):
        said = found.refused("other", *found.joining(kind, enclave), "env")
        found.screen.holds(rule in said, f"the coordinator names the rule: {rule}")


def _keep_keys_apart(found: Cluster, shop: _Shop, receipt: str) -> None:
    found.screen.step(
        "Give each instance a key of its own",
        "orders makes receipts with receiptKey. The manifest does not share this key: each instance"
        " (identified by its UUID file) has its own key, and has the same key after a restart.",
    )
    found.launch("sibling", *_orders(found), shop.sibling, shop.stock, until=_SERVING)
    check = typed(["check", "apples", receipt])
    found.stage.command(f"python shop/customer.py {shop.orders} {check}")
    found.stage.command(f"python shop/customer.py {shop.sibling} {check}", code=1)
    one, other = (_certified(found, name) for name in ("orders", "sibling"))
    found.screen.holds(one != other, "same program, same type, different UUID: different keys")


def _orders(found: Cluster) -> tuple[str, ...]:
    words = found.joining("orders", "orders.enclave.json", "orders.example.com")
    return (*words, "python", "../shop/orders.py")


def _certified(found: Cluster, name: str) -> str:
    """Return the subject, with the UUID, of the certificate in the folder ``name``."""
    pem = (found.folder / name / "tls.pem").read_bytes()
    return x509.load_pem_x509_certificates(pem)[0].subject.rfc4514_string()
