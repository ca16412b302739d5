"""The stock service: takes goods out of stock, only for marbles of the type `orders`.

Usage: python stock.py PORT
"""

import os
import sys
from threading import Lock

from mutual_tls import TextHandler, serve

_LEVELS = {
    goods: int(count)
    for goods, _, count in (entry.partition("=") for entry in os.environ["STOCK"].split())
}
_LOCK = Lock()


class Stock(TextHandler):
    """``POST /GOODS``: take one piece out of stock."""

    def do_POST(self) -> None:
        """Answer with the number of remaining pieces."""
        if self.caller() != "orders":
            self.answer(403, f"a marble of type {self.caller()} takes nothing out of stock")
            return
        goods = self.path.removeprefix("/")
        with _LOCK:
            left = _LEVELS.get(goods, 0) - 1
            if left >= 0:
                _LEVELS[goods] = left
        if left >= 0:
            self.answer(200, f"{left} left")
        else:
            self.answer(409, "sold out")


serve(int(sys.argv[1]), Stock, marbles_only=True)
