"""Writers that a kill interrupts, and checks of the values after the kill."""

import threading
from http.client import HTTPException

from support.process.server import Client

__all__ = ["Ledger", "Writer"]


class Writer(threading.Thread):
    """Uploads rising numbers to a secret until the connection ends."""

    def __init__(self, client: Client, name: str, first: int) -> None:
        super().__init__(daemon=True)
        self.client = client
        self.name_of_secret = name
        self.acknowledged = first - 1
        self.attempted = first - 1
        self.refused: list[bytes] = []
        self.answered = threading.Event()  # set at the first answer, or at the thread's end

    def run(self) -> None:
        """Upload until the connection breaks or the process refuses."""
        try:
            while True:
                self.attempted += 1
                value = self.attempted.to_bytes(16)
                reply = self.client.upload({self.name_of_secret: value})
                if reply.status != 200:
                    self.refused.append(reply.body)
                    return
                self.acknowledged = self.attempted
                self.answered.set()
        except (OSError, HTTPException):  # the connection died with the process
            return
        finally:
            self.answered.set()


class Ledger:
    """The last acknowledged and the last attempted value of each secret."""

    def __init__(self, writers: int) -> None:
        self.acknowledged = [0] * writers
        self.attempted = [0] * writers

    def check(self, client: Client) -> None:
        """Compare with the values that ``client`` reads, and expect these values from now on."""
        names = [f"key{number}" for number in range(len(self.acknowledged))]
        found = client.secrets(names)
        for number, name in enumerate(names):
            held = int.from_bytes(found[name] or b"")
            assert self.acknowledged[number] <= held <= self.attempted[number]
            self.acknowledged[number] = self.attempted[number] = held
