"""An environment of verifiers takes part in a federation, by the commands that its page shows."""

import re
from pathlib import Path

import pytest

from tests.support import own_environment, small
from tests.support.sources import ROOT

EXAMPLE = ROOT / "examples/10-verifiers"
PORT = "8008"
NO_NETWORK = {
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1",
}
"""Whoever asks beyond this machine is answered by nobody."""


def typed(begin: str) -> str:
    """The one line of the page that begins so."""
    (line,) = re.findall(f"^{re.escape(begin)}.*$", (EXAMPLE / "README.md").read_text(), re.M)
    return str(line)


def test_the_page_installs_the_version_that_is_tried() -> None:
    wanted = typed("/tmp/verifiers/bin/pip install ").split()[-1]
    assert f"\n{wanted} \\\n" in (ROOT / "requirements/verifiers.txt").read_text()


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.timeout(1800)
def test_an_environment_of_verifiers_gets_better_beside_maze_as_the_page_says(
    tmp_path: Path,
) -> None:
    port = str(own_environment.free_port())
    python, script, *given = typed("/tmp/verifiers/bin/python ").split()
    assert given == ["cart-v1", PORT] and ROOT / script == EXAMPLE / "bridge.py"
    file, *options = typed("hansa run ").split()[2:]
    assert ROOT / file == EXAMPLE / "federation.yaml"
    manifest = tmp_path / "federation.yaml"
    manifest.write_text((ROOT / file).read_text().replace(f":{PORT}", f":{port}"))
    command = [own_environment.install("verifiers") / Path(python).name, ROOT / script]

    def is_up() -> bool:
        return "cart-v1 at http" in (tmp_path / "server.log").read_text()

    environ = {**NO_NETWORK, "HOME": str(tmp_path)}
    with (
        own_environment.running(
            [*command, given[0], port], tmp_path, is_up, "verifiers", **environ
        ),
        small.Run(manifest, tmp_path / "run", *options) as federation,
    ):
        federation.finish()
    history = small.status(tmp_path / "run")["history"]
    for name in ("cart", "maze"):
        assert history[-1]["success"][name] > history[0]["success"][name] + 0.1
    log = (tmp_path / "run/jobs/verifiers-r1-cart-a1/log.txt").read_text()
    assert "episodes_dropped" not in log
