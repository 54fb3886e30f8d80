"""A real Prometheus reads the operator's metrics, and promtool has nothing to say against them."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from hansa.local.ports import claim_ports
from tests.cluster.installed import OPERATOR, Hansa
from tests.support.processes import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def evolved(hansa: Hansa) -> str:
    """A federation that has come to its end, or does so now."""
    if not hansa.status("evolves"):
        hansa.apply(hansa.manifest("evolves"))
    hansa.finish("evolves")
    return "evolves"


def test_promtool_accepts_what_the_operator_exposes(hansa: Hansa, evolved: str) -> None:
    program = shutil.which("promtool")
    assert program, "promtool: got none, expected Debian's package prometheus"
    until(lambda: f'federation="{evolved}"' in hansa.metrics(), "it tells of the federation")
    output = subprocess.run(
        [program, "check", "metrics"], input=hansa.metrics(), capture_output=True, text=True
    )
    assert (output.returncode, output.stderr + output.stdout) == (0, "")


class Prometheus:
    """A server of its own that scrapes one address every second."""

    def __init__(self, folder: Path, target: str) -> None:
        job = {
            "job_name": "hansa",
            "honor_labels": True,
            "static_configs": [{"targets": [target]}],
        }
        config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [job]}
        (folder / "prometheus.yml").write_text(json.dumps(config))
        self.block = claim_ports()
        self._address = f"127.0.0.1:{self.block.ports['s3.port']}"
        self.process = subprocess.Popen(
            [
                shutil.which("prometheus") or "prometheus",
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={self._address}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The newest answer to a query; nothing while it starts."""
        try:
            with urlopen(f"http://{self._address}/api/v1/query?query={quote(query)}") as answer:
                found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
                return found
        except (URLError, OSError):
            return []


@pytest.fixture
def prometheus(hansa: Hansa, tmp_path: Path) -> Iterator[Prometheus]:
    """Prometheus on this machine, which reaches the cluster's Services."""
    address = hansa.cluster.get("service", OPERATOR)["spec"]["clusterIP"]
    server = Prometheus(tmp_path, f"{address}:8080")
    yield server
    server.process.kill()
    server.process.wait()
    server.block.close()


def test_a_real_prometheus_scrapes_them(hansa: Hansa, evolved: str, prometheus: Prometheus) -> None:
    wanted = f'hansa_round{{federation="{evolved}"}}'
    until(lambda: prometheus.ask(wanted), "Prometheus has scraped the operator")
    assert prometheus.ask('up{job="hansa"}')[0]["value"][1] == "1"
    assert prometheus.ask(wanted)[0]["value"][1] == "2"
    worlds = prometheus.ask(f'hansa_success_ratio{{federation="{evolved}"}}')
    assert {each["metric"]["environment"] for each in worlds} == {"maze", "webshop"}
    assert {each["metric"]["namespace"] for each in worlds} == {hansa.cluster.namespace}
