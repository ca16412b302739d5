"""Steps: start the shop, buy something, and be refused as anybody else."""

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
    """Where the services listen."""

    def __init__(self) -> None:
        self.orders = str(free_port())
        self.sibling = str(free_port())
        self.stock = str(free_port())


def show(screen: Screen, folder: Path) -> None:
    """Play the example in the new ``folder``.

    Raises ``UnexpectedError`` if something does not hold.
    """
    shop = _Shop()
    with cluster(screen, folder, FOLDER, _HERE) as found:
        stock = _start(found, shop)
        receipt = _buy(found, shop)
        _refuse_others(found, shop, stock)
        _refuse_other_packages(found)
        _keep_keys_apart(found, shop, receipt)


def _start(found: Cluster, shop: _Shop) -> Workload:
    """Return the stock service."""
    found.screen.step(
        "Start a cluster",
        "A coordinator of its own, whose manifest names two packages and two types of workloads."
        " keyhouse run verifies it, joins, and becomes the program. (The simulated machine has to"
        " be told which enclave a program is: that is what the *.enclave.json are.)",
    )
    found.start_coordinator()
    words = found.joining("stock", "stock.enclave.json", "stock.example.com")
    stock = found.launch("stock", *words, "python", "../shop/stock.py", shop.stock, until=_SERVING)
    found.launch("orders", *_orders(found), shop.orders, shop.stock, until=_SERVING)
    delivered = {path.name for path in (found.folder / "orders").iterdir()}
    found.screen.holds(
        delivered == {"tls.key", "tls.pem", "uuid"},
        "both serve, with certificates and keys where the manifest says",
    )
    return stock


def _buy(found: Cluster, shop: _Shop) -> str:
    """Return the receipt."""
    found.screen.step(
        "Buy something",
        "The customer accepts only a certificate for orders.example.com below the coordinator's"
        " root. orders.py asks stock.py for the goods: each shows its certificate and checks that"
        " the other has one of the same deployment, for the right type of workload.",
    )
    said = found.stage.command(f"python shop/customer.py {shop.orders} buy apples").output.decode()
    _, sold, receipt = said.strip().rpartition("apples: 1 left, receipt ")
    found.screen.holds(bool(sold), "one sold, one left")
    return receipt


def _refuse_others(found: Cluster, shop: _Shop, stock: Workload) -> None:
    found.screen.step(
        "Try it without being a marble",
        "A program on the same machine can reach the stock service, and gets nothing from it.",
    )
    stage, ask = found.stage, f"python shop/stranger.py {shop.stock}"
    stage.command(ask, code=1)
    _turned_away(found, stock, "did not return a certificate")
    make_user(found.folder, "orders")
    found.screen.say()
    found.screen.say("With a certificate that it has made itself, for the name orders:")
    stage.command(f"{ask} orders.crt orders.key", code=1)
    _turned_away(found, stock, "certificate verify failed")
    found.screen.say()
    found.screen.say("And with a real one, of a workload that is no orders:")
    said = stage.command(f"{ask} stock/tls.pem stock/tls.key").output
    found.screen.holds(b" 403 " in said, "refused: the type is in the certificate")


def _turned_away(found: Cluster, stock: Workload, reason: str) -> None:
    stock.wait_for(reason)
    said = found.stage.command("tail -n 1 stock.log").output.decode()
    found.screen.holds(reason in said, "the stock service says why")


def _refuse_other_packages(found: Cluster) -> None:
    found.screen.step(
        "Join with another program",
        "Whoever calls itself orders has to be orders, by what the machine measures. A version of"
        " the stock service that is too old does not join either.",
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
        "Receipts are made with receiptKey, which the manifest does not share: each instance (by"
        " its UUID file) has its own, and has it again when it is started again.",
    )
    found.launch("sibling", *_orders(found), shop.sibling, shop.stock, until=_SERVING)
    check = typed(["check", "apples", receipt])
    found.stage.command(f"python shop/customer.py {shop.orders} {check}")
    found.stage.command(f"python shop/customer.py {shop.sibling} {check}", code=1)
    one, other = (_certified(found, name) for name in ("orders", "sibling"))
    found.screen.holds(one != other, "same program, same type, other UUID: other keys")


def _orders(found: Cluster) -> tuple[str, ...]:
    words = found.joining("orders", "orders.enclave.json", "orders.example.com")
    return (*words, "python", "../shop/orders.py")


def _certified(found: Cluster, name: str) -> str:
    """Return the UUID in the certificate of the workload in the folder ``name``."""
    pem = (found.folder / name / "tls.pem").read_bytes()
    return x509.load_pem_x509_certificates(pem)[0].subject.rfc4514_string()
