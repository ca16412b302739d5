"""Steps: start Debian's Redis, use it from a workload, and see refusals for other programs."""

from pathlib import Path
from typing import Final

from examples.cluster import Cluster, cluster
from examples.demo.ports import free_port
from examples.demo.screen import Screen
from examples.demo.shell import typed

__all__ = ["show"]

_HERE: Final = Path(__file__).parent
_SERVING: Final = "Ready to accept connections"
_FILES: Final = ("redis.conf", "tls.key", "tls.pem")


def show(screen: Screen, folder: Path) -> None:
    """Run the example in the new ``folder``.

    Raises ``UnexpectedError`` if a claim of a step is false.
    """
    port = str(free_port())
    with cluster(screen, folder, _HERE) as found:
        _start(found, port)
        _use(found, port)
        _refuse(found, port)


def _start(found: Cluster, port: str) -> None:
    found.screen.step(
        "Start Redis as it is",
        "The manifest contains the configuration with the password, the key and the certificate as"
        " files. keyhouse run writes these files and becomes an unmodified redis-server.",
    )
    found.start_coordinator()
    words = found.joining("redis", "redis.enclave.json", "redis.example.com")
    server = ("redis-server", "redis.conf", "--tls-port", port)
    redis = found.launch("redis", *words, *server, until=_SERVING)
    done = found.stage.command(
        typed(["stat", "-c", "%a %n", *(f"redis/{file}" for file in _FILES)])
    )
    listed = done.output.decode()
    found.screen.holds(
        all(line.startswith("600 ") for line in listed.splitlines()),
        "the files of the manifest exist, and only the user of Redis can read them",
    )
    program = Path(f"/proc/{redis.pid}/comm").read_text(encoding="utf-8").strip()
    found.screen.holds(
        program == "redis-server", f"process {redis.pid} was the launcher and is {program} now"
    )


def _use(found: Cluster, port: str) -> None:
    found.screen.step(
        "Use it",
        "A second workload receives the same password and the coordinator's root certificate in"
        " variables. It accepts only a certificate for redis.example.com below this root.",
    )
    words = found.joining("app", "app.enclave.json")
    done = found.run("app", *words, "python", "../client.py", port)
    found.screen.holds(
        b"hello from a workload" in done.output, "written and read over verified TLS"
    )


def _refuse(found: Cluster, port: str) -> None:
    found.screen.step(
        "Try it as anybody else",
        "redis-cli connects to Redis without the password. A third program requests the password"
        " from the coordinator.",
    )
    ask = typed(["redis-cli", "--tls", "--cacert", "root.pem", "-p", port, "GET", "greeting"])
    said = found.stage.command(ask).output
    found.screen.holds(b"NOAUTH" in said, "refused: no password, no value")
    words = found.joining("app", "redis.enclave.json")
    refusal = found.refused("other", *words, "env")
    found.screen.holds("UniqueID" in refusal, "no password for this program: UniqueID differs")
