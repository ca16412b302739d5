"""The front end: accepts orders of customers, and issues receipts with its own key.

Usage: python orders.py PORT STOCK-PORT
"""

import hmac
import os
import sys
from http import HTTPStatus

from mutual_tls import TextHandler, connect, serve

_PORT, _STOCK_PORT = map(int, sys.argv[1:])
_KEY = bytes.fromhex(os.environ["RECEIPT_KEY"])  # each instance has its own key


class Orders(TextHandler):
    """``POST /GOODS``: order one piece. ``GET /GOODS/RECEIPT``: check a receipt."""

    def do_POST(self) -> None:
        """Take one piece out of stock and answer with a receipt."""
        try:
            status, said = _order(self.path)
        except OSError as error:  # this includes TLS errors
            self.answer(502, f"the stock service does not answer: {error}")
            return
        goods = self.path.removeprefix("/")
        receipt = f"receipt {_receipt(goods)}" if status == HTTPStatus.OK else "no receipt"
        self.answer(status, f"{goods}: {said}, {receipt}")

    def do_GET(self) -> None:
        """Answer 200 for a receipt of this instance, otherwise 404."""
        goods, _, receipt = self.path.removeprefix("/").partition("/")
        mine = hmac.compare_digest(receipt.encode(), _receipt(goods).encode())
        self.answer(200 if mine else 404, "a receipt of mine" if mine else "not a receipt of mine")


def _order(path: str) -> tuple[int, str]:
    connection = connect(_STOCK_PORT, name="stock.example.com", kind="stock")
    try:
        connection.request("POST", path)
        response = connection.getresponse()
        return response.status, response.read().decode().strip()
    finally:
        connection.close()


def _receipt(goods: str) -> str:
    return hmac.digest(_KEY, goods.encode(), "sha256").hex()[:32]


serve(_PORT, Orders, marbles_only=False)
