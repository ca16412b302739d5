"""A PostgreSQL primary with a synchronous standby. Either node may fail and be replaced."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from support.peers.postgres import PostgresServer

__all__ = ["PORT", "Cluster"]

PORT: Final = 5432
"""The port of each node, at the node's own address."""

_FOLLOWS: Final = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"


class Cluster:
    """Two ``nodes``; ``primary`` is the index of the writable node."""

    def __init__(self, primary: PostgresServer, stack: ExitStack) -> None:
        self._stack = stack
        self._owners: dict[PostgresServer, ExitStack] = {}
        self.database: Final = asyncio.run(primary.database())
        self.primary = 0
        self.nodes: Final = [primary, self._standby_of(primary)]

    @classmethod
    @contextmanager
    def running(cls) -> "Iterator[Cluster]":
        """Run both nodes until the context ends; skip the test without PostgreSQL."""
        with PostgresServer.running() as primary, ExitStack() as stack:
            yield cls(primary, stack)

    @property
    def writer(self) -> PostgresServer:
        """The primary."""
        return self.nodes[self.primary]

    @property
    def standby(self) -> PostgresServer:
        """The standby."""
        return self.nodes[1 - self.primary]

    def promote(self) -> PostgresServer:
        """Make the standby the primary; return the former primary. It may still run."""
        self.standby.promote()
        self.primary = 1 - self.primary
        return self.standby

    def rebuild(self) -> None:
        """Put a new standby in place of the former primary, without ending the former primary.

        Return when the standby is synchronous.
        """
        self.nodes[1 - self.primary] = self._standby_of(self.writer)

    def remove(self, node: PostgresServer) -> None:
        """End a node after its removal from ``nodes``."""
        if node.is_running:
            node.crash()
        if node in self._owners:
            self._owners.pop(node).close()

    def await_standby(self) -> None:
        """Return when the standby is synchronous."""
        _await_standby(self.writer)

    def _standby_of(self, primary: PostgresServer) -> PostgresServer:
        owner = self._stack.enter_context(ExitStack())
        standby = owner.enter_context(primary.with_standby())
        self._owners[standby] = owner
        _await_standby(primary)
        return standby


def _await_standby(primary: PostgresServer) -> None:
    while not asyncio.run(primary.ask(_FOLLOWS)):
        time.sleep(0.05)  # PostgreSQL does not announce this
