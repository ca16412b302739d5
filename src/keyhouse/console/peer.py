"""Find the user of the program at the client's end of a connection over loopback.

``SO_PEERCRED`` does not exist for TCP. Instead, sock_diag(7) of the kernel answers a query with
both addresses of the connection, in about 2 µs. A kernel without sock_diag has the file
``/proc/net/tcp`` (proc(5)) instead, but the length of this file grows with the number of
connections of the machine.
"""

import socket
import struct
from pathlib import Path
from typing import Final

Address = tuple[str, int]

_SOCK_DIAG: Final = 4  # NETLINK_SOCK_DIAG, linux/netlink.h
_BY_FAMILY: Final = 20  # SOCK_DIAG_BY_FAMILY, linux/sock_diag.h
_ERROR: Final = 2  # NLMSG_ERROR, linux/netlink.h
_REQUEST: Final = 1  # NLM_F_REQUEST, linux/netlink.h
_NOT_FOUND: Final = -2  # -ENOENT
_ALL_STATES: Final = 0xFFF  # linux/tcp.h: a bit for each TCP state
_CONNECTED: Final = 1  # TCP_ESTABLISHED, net/tcp_states.h of Linux
_HEADER: Final = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, sender
_WANTED: Final = struct.Struct("=BBBBI")  # begin of inet_diag_req_v2: family, protocol, ..., states
_PORTS: Final = struct.Struct("!HH4s12x4s12x")  # begin of inet_diag_sockid: ports, addresses
_NO_COOKIE: Final = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)  # any interface, no cookie
_STATE: Final = struct.Struct("=xB")
_OWNER: Final = struct.Struct("=I")
# Offset of idiag_uid in inet_diag_msg: 4 bytes, the 48 bytes of the addresses, three numbers.
_OWNER_AT: Final = _HEADER.size + 4 + 48 + 12
_LARGEST: Final = 8192  # bytes of an answer

_CONNECTIONS: Final = Path("/proc/net/tcp")
# The state of a connected socket, in the column after both addresses (proc(5)).
_ESTABLISHED: Final = "01"
# Number of columns between the state and the owner.
_BEFORE_OWNER: Final = 3


class Peers:
    """Queries the kernel for the users that own sockets of this machine."""

    def __init__(self) -> None:
        self._kernel = _kernel()
        self._sequence = 0

    def owner(self, near: Address, peer: Address) -> int | None:
        """Return the user id that owns the socket at ``near`` with a connection to ``peer``.

        Both are IPv4 addresses with ports. Return None if the connection is not established: for a
        socket that its program has closed, the kernel would state user 0.
        """
        if self._kernel is not None:
            try:
                return self._query_kernel(self._kernel, near, peer)
            except (OSError, struct.error):
                self._kernel.close()
                self._kernel = None
        return _listed_owner(near, peer)

    def close(self) -> None:
        """Close the connection to sock_diag of the kernel."""
        if self._kernel is not None:
            self._kernel.close()
            self._kernel = None

    def _query_kernel(self, kernel: socket.socket, near: Address, peer: Address) -> int | None:
        self._sequence = (self._sequence + 1) & 0xFFFFFFFF
        ports = _PORTS.pack(near[1], peer[1], socket.inet_aton(near[0]), socket.inet_aton(peer[0]))
        wanted = _WANTED.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0, _ALL_STATES)
        size = _HEADER.size + len(wanted) + len(ports) + len(_NO_COOKIE)
        header = _HEADER.pack(size, _BY_FAMILY, _REQUEST, self._sequence, 0)
        kernel.send(header + wanted + ports + _NO_COOKIE)
        answer = kernel.recv(_LARGEST)
        _, kind, _, sequence, _ = _HEADER.unpack_from(answer)
        if sequence != self._sequence:
            raise OSError("the kernel answered another query")
        if kind == _ERROR:
            (number,) = struct.unpack_from("=i", answer, _HEADER.size)
            if number != _NOT_FOUND:
                raise OSError(-number, "sock_diag refused a query")
            return None
        (state,) = _STATE.unpack_from(answer, _HEADER.size)
        start = _HEADER.size + 4
        if state != _CONNECTED or answer[start : start + len(ports)] != ports:
            return None
        (owner,) = _OWNER.unpack_from(answer, _OWNER_AT)
        return int(owner)


def _kernel() -> socket.socket | None:
    """Return a connection to sock_diag of the kernel; None if the kernel has no sock_diag."""
    try:
        found = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG)
    except OSError:
        return None
    try:
        # A connected socket accepts no message of another process.
        found.connect((0, 0))
        found.settimeout(0)  # the kernel answers before send returns
    except OSError:
        found.close()
        return None
    return found


def _listed_owner(near: Address, peer: Address) -> int | None:
    wanted = f": {_spelled(near)} {_spelled(peer)} {_ESTABLISHED} ".encode("ascii")
    try:
        table = _CONNECTIONS.read_bytes()
    except OSError:
        return None
    _, found, rest = table.partition(wanted)  # there may be thousands of lines
    return int(rest.split(maxsplit=_BEFORE_OWNER + 1)[_BEFORE_OWNER]) if found else None


def _spelled(address: Address) -> str:
    host = int.from_bytes(socket.inet_aton(address[0]), "little")
    return f"{host:08X}:{address[1]:04X}"
