"""Metrics of running workloads: renewals, refusals, streams, lineages."""

import http.client
from collections.abc import Mapping
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.living.channel import RunningWorkload, refusal
from support.living.deployment import channel_manifest, upload
from support.process.server import Server, free_port
from support.samples.deployment import user

from keyhouse.wire import workload_pb2 as wire

pytestmark = pytest.mark.acceptance

LINEAGES = "keyhouse_lineages"


def scrape(port: int) -> Mapping[tuple[str, ...], float]:
    """Return the samples by name and values of labels, in the order of the text."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_running_workloads_are_counted(tmp_path: Path) -> None:
    metrics = free_port()
    with Server(tmp_path / "data", arguments=("--metrics-addr", f"127.0.0.1:{metrics}")) as server:
        with server.client() as client:
            assert client.set_manifest(channel_manifest()).status == 200
        upload(server, bytes(16))
        before = scrape(metrics)
        assert before[LINEAGES, "current", "app"] == 0
        assert (LINEAGES, "current", "plain") not in before  # the type has no Renewal
        assert before["keyhouse_former_roots",] == before["keyhouse_revoked_platforms",] == 0

        one, two = (RunningWorkload(server.mesh_port) for _ in range(2))
        assert refusal(lambda: one.call("Fetch", wire.FetchRequest())).code == "renew-first"
        one.renew()
        two.renew()
        with one.connected() as connection:
            stream = connection.watch()
            stream.next()
            upload(server, bytes(15) + b"\1")
            stream.next()
            found = scrape(metrics)
            assert found["keyhouse_watches",] == 1
            assert found["keyhouse_watch_messages_total",] == 1
            assert found["keyhouse_watches_refused_total",] == 0
        assert found["keyhouse_renewals_total", "app"] == 2
        assert found["keyhouse_channel_refused_total", "renew-first", "Fetch"] == 1
        assert found[LINEAGES, "current", "app"] == 2
        with server.client(user("writer")) as client:
            named = {"scope": "workload", "marbleType": "app", "uuid": one.uuid}
            assert client.post("/api/v2/revocations", named).status == 200
        states = [scrape(metrics)[LINEAGES, each, "app"] for each in ("current", "revoked")]
        assert states == [1, 1]
