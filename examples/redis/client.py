"""A program that stores a value in Redis. The manifest provides the password and the root.

Usage: python client.py PORT
"""

import os
import socket
import ssl
import sys
from io import BufferedReader
from typing import Final

_NAME: Final = "redis.example.com"


def main(port: str) -> None:
    """Write a value to Redis, and read the value."""
    context = ssl.create_default_context(cadata=os.environ["REDIS_ROOT"])
    plain = socket.create_connection(("127.0.0.1", int(port)), 10)
    with context.wrap_socket(plain, server_hostname=_NAME) as tls, tls.makefile("rb") as answers:
        print("connected to", _NAME, "with", tls.version())
        for words in (
            ("AUTH", os.environ["REDIS_PASSWORD"]),
            ("SET", "greeting", "hello from a workload"),
            ("GET", "greeting"),
        ):
            tls.sendall(_command(words))
            print(words[0], "gives", _read(answers))


def _command(words: tuple[str, ...]) -> bytes:
    """Return a command in the protocol of Redis (RESP): the length precedes each word."""
    encoded = [word.encode() for word in words]
    parts = [b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded]
    return b"*%d\r\n" % len(words) + b"".join(parts)


def _read(answers: BufferedReader) -> str:
    line = answers.readline().decode().strip()
    if line.startswith("-"):
        sys.exit(f"refused: {line}")
    return answers.read(int(line[1:]) + 2).decode().strip() if line.startswith("$") else line


main(*sys.argv[1:])
