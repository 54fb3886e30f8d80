"""docs/members.md can be typed by two owners, each in a terminal, in less than ten minutes."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft4Validator

from hansa.api.member_spec import MemberObject
from hansa.cli.common import Format, print_data
from hansa.kubernetes.member_view import list_violations
from hansa.kubernetes.pod_policy.shapes import PodAllowlist
from hansa.local.ports import claim_ports
from hansa.manifests.load import load, load_member
from hansa.members.invitation import build_member_manifest, invite, open_invitation
from tests.support.mail import COORDINATOR, SILO
from tests.support.processes import PATIENCE_SECONDS, until
from tests.support.small import hansa

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/members.md").read_text()
EXAMPLE = ROOT / "examples/06-members"
WALK = PAGE.partition("## Ten minutes, two owners")[2].partition("\n## ")[0]
OWNERS = ("Coordinator", "Silo")
MINUTES = 10


def steps() -> list[tuple[str, str]]:
    """The walk's commands with the owner who types them, in the page's order."""
    typed, owner = [], ""
    for block in re.split(r"^(```.*?^```$)", WALK, flags=re.MULTILINE | re.DOTALL):
        if block.startswith("```console\n"):
            lines = block.removeprefix("```console\n").removesuffix("```").splitlines()
            typed += [(owner, command) for command in commands(lines)]
        elif named := re.findall(rf"\*\*({'|'.join(OWNERS)})\*\*", block):
            owner = named[-1]
    return typed


def commands(lines: list[str]) -> list[str]:
    """Each command with the lines that continue with it."""
    found: list[str] = []
    for line in lines:
        if line.startswith("$ "):
            found.append(line[2:])
        else:
            found[-1] += f"\n{line}"
    return found


class Terminal:
    """A shell that one owner types into."""

    def __init__(self, owner: str, folder: Path) -> None:
        self.owner = owner
        self._log = folder / f"{owner}.log"
        self._ends = folder / f"{owner}.ends"
        self._typed = 0
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        with self._log.open("w") as log:
            self.shell = subprocess.Popen(
                ["bash"],
                cwd=folder,
                env={**os.environ, "PATH": path},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self._log.read_text()

    def type(self, command: str) -> None:
        """Type it, and have its exit code written down."""
        assert self.shell.stdin
        self._typed += 1
        self.shell.stdin.write(f"{command}\necho $? >> {self._ends}\n")
        self.shell.stdin.flush()

    def codes(self) -> list[int]:
        """Exit codes of what has ended."""
        return [int(code) for code in self._ends.read_text().split()] if self._typed else []

    def wait(self) -> None:
        """Until the last command has ended well."""
        until(lambda: self._ends.exists() and len(self.codes()) == self._typed, self.said)
        assert self.codes()[-1] == 0, self.said

    def close(self) -> None:
        """End the shell and what it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.shell.pid, signal.SIGKILL)
        self.shell.wait()


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[dict[str, Terminal]]:
    """Two shells in a fresh checkout, of which only the example is needed."""
    shutil.copytree(EXAMPLE, tmp_path / "examples" / EXAMPLE.name)
    made = {owner: Terminal(owner, tmp_path) for owner in OWNERS}
    yield made
    for each in made.values():
        each.close()


@pytest.mark.slow
@pytest.mark.timeout(2 * PATIENCE_SECONDS)
def test_two_owners_type_the_page_within_ten_minutes(
    terminals: dict[str, Terminal], tmp_path: Path
) -> None:
    began = time.monotonic()
    block = claim_ports()
    port = block.ports["s3.port"]  # another test's bucket may have the page's
    for file in (tmp_path / "examples" / EXAMPLE.name).iterdir():
        file.write_text(file.read_text().replace("8333", str(port)))
    coordinator, silo = (terminals[owner] for owner in OWNERS)
    for owner, command in steps():
        terminal = terminals[owner]
        if command.startswith("hansa mail"):  # the run has ended, and the silo with it
            coordinator.wait()
            silo.wait()
        terminal.type(command)
        if command.endswith("&"):
            until(lambda: f"http://127.0.0.1:{port}, bucket shared" in coordinator.said, "a bucket")
        elif not command.startswith(("hansa run", "hansa join")):
            terminal.wait()
    block.close()
    shown = re.compile(r"^success on held-out tasks: ([\d.]+)% -> ([\d.]+)% \(2 rounds\), \+", re.M)
    assert shown.search(WALK), "the page shows how it ends"
    first, last = map(float, shown.findall(coordinator.said)[0])
    assert last - first >= 20
    assert "two-owners/webshop: Idle: the federation is over" in silo.said
    assert "every object that a letter names is there as it says" in coordinator.said
    for text in ("two-owners/webshop", "2 of 2", "of 1000", "updates/webshop/", "answers/webshop/"):
        assert text in silo.said, text
    fingerprints = re.findall(r"^fingerprint of its key: (.*)$", coordinator.said, re.MULTILINE)
    assert len(fingerprints) == 1 and fingerprints[0] in silo.said, "both owners see the same"
    took = time.monotonic() - began
    print(f"the walk took {took:.0f} s")
    assert took < MINUTES * 60


def test_the_walk_has_both_owners_and_every_command_of_theirs() -> None:
    typed = {(owner, command.split()[1]) for owner, command in steps() if "hansa " in command}
    assert {command for owner, command in typed if owner == "Silo"} >= {"keys", "member", "join"}
    wanted = {"keys", "model", "invite", "run", "mail", "status"}
    assert {command for owner, command in typed if owner == "Coordinator"} >= wanted


def test_the_examples_digests_are_those_of_its_model() -> None:
    printed = hansa("model", "-f", EXAMPLE / "federation.yaml")
    assert printed.returncode == 0 and "note:" not in printed.stderr, printed.stderr


def test_the_examples_member_is_made_by_hansa_member(capsys: pytest.CaptureFixture[str]) -> None:
    sealed = invite(load(EXAMPLE / "federation.yaml", here=False), "webshop", COORDINATOR)
    invitation, signer = open_invitation(sealed, "invitation.json")
    assert signer == COORDINATOR.public
    print_data(build_member_manifest(invitation, SILO.public, "webshop"), Format.YAML)
    own = re.search(r"<<END\n(.*?)END\n", WALK, re.DOTALL)
    assert own
    text = (EXAMPLE / "member.yaml").read_text()
    made = "".join(line for line in text.splitlines(True) if not line.startswith("#"))
    assert made == capsys.readouterr().out + own[1]
    assert load_member(EXAMPLE / "member.yaml").spec.options == yaml.safe_load(own[1])["options"]


def on_a_cluster() -> dict[str, Any]:
    """The example's silo with what the page adds to it on a cluster."""
    _, _, section = PAGE.partition("\n## On two clusters\n")
    added = re.search(r"```yaml\n(.*?)```", section, re.DOTALL)
    assert added
    document = yaml.safe_load((EXAMPLE / "member.yaml").read_text())
    page = yaml.safe_load(added[1])
    document["metadata"] |= page["metadata"]
    more = page["spec"]
    document["spec"]["storage"]["s3"] |= more.pop("storage")["s3"]
    document["spec"] |= more
    crd = yaml.safe_load((ROOT / "crds/federationmember.yaml").read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    Draft4Validator(schema).validate(document)  # whose bounds are as OpenAPI 3.0 writes them
    return dict(document)


def test_what_the_page_adds_on_a_cluster_is_all_that_the_operator_wants() -> None:
    assert list_violations(
        MemberObject.model_validate(yaml.safe_load((EXAMPLE / "member.yaml").read_text())),
        PodAllowlist(),
    )
    assert list_violations(MemberObject.model_validate(on_a_cluster()), PodAllowlist()) == []


def test_the_page_has_what_validate_says_of_the_silo_on_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("member.yaml").write_text(yaml.safe_dump(on_a_cluster()))
    done = hansa("validate", "member.yaml", "--cluster")
    assert done.returncode == 0 and done.stderr.count("kubectl -n silo patch secret") == 3
    assert f"$ hansa validate member.yaml --cluster\n{done.stderr}{done.stdout}$" in PAGE


def test_no_note_says_of_a_silo_elsewhere_that_its_trajectories_are_in_the_bucket() -> None:
    done = hansa("validate", EXAMPLE / "federation.yaml")
    notes = [line for line in done.stderr.splitlines() if "trajectories" in line]
    assert done.returncode == 0 and notes
    assert not any("webshop" in line for line in notes)
