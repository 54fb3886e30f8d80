"""Random processes of a run killed with -9 at random moments: the bytes are always the same."""

import random
import time
from pathlib import Path

import pytest

from tests.support import processes, small
from tests.support.processes import until

pytestmark = pytest.mark.slow

VICTIMS = ("runner", "job", "warm", "job", "store")
LONGEST_WAIT_SECONDS = 3.0
"""Much of a small run's work falls into this time after its first Job has begun."""


class Killer:
    """Runs one folder after another to its end, killing something now and then."""

    def __init__(self, folder: Path, seed: int, expected: dict[str, bytes]) -> None:
        self._folder = folder
        self._dice = random.Random(seed)
        self._expected = expected
        self._manifest = small.write_manifest(folder)
        self._runs = 1
        self.killed: list[str] = []

    def go(self, kills: int) -> None:
        """Kill so many processes; every run that gets to its end must have the same bytes."""
        victims = [VICTIMS[i % len(VICTIMS)] for i in range(kills)]
        self._dice.shuffle(victims)
        while victims:
            with small.Run(self._manifest, self._out) as run:
                self._disturb(run, victims)
                if not victims:
                    break
                if run.process.poll() == 0:  # it was faster: a fresh folder for the next victim
                    self._expect_same_bytes()
                    self._runs += 1
        with small.Run(self._manifest, self._out) as run:
            run.finish()
        self._expect_same_bytes()
        self._expect_equal_audit()

    @property
    def _out(self) -> Path:
        return self._folder / f"run{self._runs}"

    def _disturb(self, run: small.Run, victims: list[str]) -> None:
        """Kill victims until the runner is one of them, or the run has ended."""
        while victims and run.process.poll() is None:
            early = victims[0] == "runner" and self._dice.random() < 0.3
            if not early:
                until(lambda: processes.jobs(run.pid) or run.process.poll() is not None, "a Job")
            moment = time.monotonic() + self._dice.uniform(0, LONGEST_WAIT_SECONDS)
            until(lambda m=moment: time.monotonic() > m, "a random moment")  # type: ignore[misc]
            pid = self._find(run, victims[0])
            if not pid or run.process.poll() is not None:
                continue
            processes.kill(pid)
            self.killed.append(victims.pop(0))
            until(lambda p=pid: processes.is_gone(p), "it to be gone")  # type: ignore[misc]

    def _find(self, run: small.Run, victim: str) -> int:
        if victim == "runner":
            return run.pid
        if victim == "store":
            return processes.weed(run.pid)
        if victim == "warm":
            return processes.warm(run.pid, self._dice.choice(["hansa_client", "hansa_server"]))
        alive = processes.jobs(run.pid)
        return alive[self._dice.choice(sorted(alive))] if alive else 0

    def _expect_same_bytes(self) -> None:
        assert small.adapter(self._out) == self._expected, f"after killing {self.killed}"

    def _expect_equal_audit(self) -> None:
        done = small.hansa("audit", self._out)
        assert done.returncode == 0, f"{done.stdout}{done.stderr} after killing {self.killed}"


def test_five_kills_at_random_moments_change_no_byte(undisturbed: Path, tmp_path: Path) -> None:
    killer = Killer(tmp_path, 1, small.adapter(undisturbed))
    killer.go(5)
    assert sorted(killer.killed) == sorted(VICTIMS)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_twenty_five_kills_at_random_moments_change_no_byte(
    undisturbed: Path, tmp_path: Path
) -> None:
    killer = Killer(tmp_path, 2, small.adapter(undisturbed))
    killer.go(25)
    assert len(killer.killed) == 25
