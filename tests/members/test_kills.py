"""Whoever is killed and whenever, in every place: the federation ends with the very same bytes."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from hansa.api import bucket_keys, constants
from tests.cluster import audit
from tests.cluster.installed import ENDS, LONG_SECONDS, Hansa
from tests.cluster.kills import is_active
from tests.members.parties import CLINIC, HQ, LONE, Apart, Join
from tests.support.federation_results import result

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
NAME = "disturbed"
AWAY_SECONDS = 30.0
"""How long the store is gone."""
LONG_AWAY_SECONDS = 200.0
"""Longer than any program waits for a store: all give up, and are started again."""


@dataclass(kw_only=True)
class Lone:
    """`hansa join`, started again with the same command whenever it was killed."""

    apart: Apart
    stack: ExitStack
    kills: int = 0
    run: Join | None = None

    def kill(self) -> None:
        """End the runner as a power cut would; what it started ends with it."""
        assert self.run
        os.kill(self.run.pid, signal.SIGKILL)
        self.kills += 1

    def revive(self) -> None:
        """Continue where it is not running; it may only have ended by a kill."""
        if self.run and self.run.process.poll() is None:
            return
        if self.run:
            assert self.run.process.returncode == -signal.SIGKILL, self.run.said
            self.run.expect_nothing_left()
        self.run = self.apart.join()
        self.stack.enter_context(self.run)


@dataclass(kw_only=True)
class Killer:
    """Kills that doors of the store set off: each at one request, once."""

    apart: Apart
    lone: Lone
    done: list[str] = field(default_factory=list)
    """What was killed, in its order."""
    wants_away: threading.Event = field(default_factory=threading.Event)
    """Whether the store is to vanish; its process is the main thread's."""

    def pods(self, where: Hansa, **labels: str) -> list[str]:
        """Names of Pods of this federation that still have work to do."""
        mine = {
            constants.LABEL_FEDERATION: self.apart.name,
            constants.LABEL_MEMBER: self.apart.member,
        }
        chosen = ",".join(f"{constants.GROUP}/{k}={v}" for k, v in labels.items())
        return [
            pod["metadata"]["name"]
            for pod in where.cluster.list("pod", chosen)
            if is_active(pod) and mine.items() & pod["metadata"]["labels"].items()
        ]

    def kill_pods(self, where: Hansa, names: list[str], what: str) -> None:
        """They vanish, without a word and without grace."""
        assert names, f"no {what} runs"
        gone = ("delete", "pod", *names, "--force", "--grace-period=0")
        done = where.cluster.kubectl(*gone)
        assert done.returncode == 0, done.stderr
        self.done.append(what)

    def job(self, where: Hansa, role: str, what: str) -> Callable[[], None]:
        """Kill the Pod that does this work."""
        return self._told(lambda: self.kill_pods(where, self.pods(where, role=role), what))

    def operator(self, where: Hansa, what: str) -> Callable[[], None]:
        """Kill the operator's Pod."""
        return self._told(lambda: self.kill_pods(where, where.operators(), what))

    def join(self) -> None:
        """Kill `hansa join`."""
        self.lone.kill()
        self.done.append("join")

    def _told(self, kill: Callable[[], None]) -> Callable[[], None]:
        """A failure in a door's thread is told at the end, by its sentence."""

        def do() -> None:
            try:
                kill()
            except AssertionError as error:
                self.done.append(f"FAILED: {error}")

        return do

    def arm(self) -> None:
        """Say what dies at which request; `lose-answer`: the store has done its work by then."""
        name, at = self.apart.name, self.apart.at
        hq, clinic, lone = (at.exchange.doors[who] for who in (HQ, CLINIC, LONE))
        put: dict[str, Any] = {"times": 1, "methods": ("PUT",)}
        update, commit = bucket_keys.update_folder, bucket_keys.MANIFEST

        # The coordinator: its courier within a post, its operator while an order goes out, the
        # aggregator while it uploads.
        hq.fail(
            "reset",
            **put,
            contains=bucket_keys.order(name, CLINIC, 1),
            then=self.job(at.hq, "courier", "hq's courier"),
        )
        hq.fail(
            "slow",
            **put,
            seconds=0,
            contains=bucket_keys.order(name, LONE, 2),
            then=self.operator(at.hq, "hq's operator"),
        )
        hq.fail(
            "lose-answer",
            **put,
            contains=bucket_keys.global_folder(name, 1),
            then=self.job(at.hq, "aggregator", "aggregator"),
        )
        # The clinic: its client between commit and report, its courier after a post, its operator.
        clinic.fail(
            "lose-answer",
            **put,
            contains=update(name, CLINIC, 1) + commit,
            then=self.job(at.clinic, "client", "clinic's client"),
        )
        clinic.fail(
            "lose-answer",
            **put,
            contains=bucket_keys.answer(name, CLINIC, 3),
            then=self.job(at.clinic, "courier", "clinic's courier"),
        )
        clinic.fail(
            "slow",
            **put,
            seconds=0,
            contains=bucket_keys.answer(name, CLINIC, 4),
            then=self.operator(at.clinic, "clinic's operator"),
        )
        # `hansa join`: between commit and answer, while it posts that, and while it starts a round.
        lone.fail("lose-answer", **put, contains=update(name, LONE, 1) + commit, then=self.join)
        lone.fail("reset", **put, contains=bucket_keys.answer(name, LONE, 3), then=self.join)
        lone.fail(
            "reset",
            times=1,
            methods=("GET",),
            contains=bucket_keys.global_folder(name, 1) + bucket_keys.ADAPTER,
            then=self.join,
        )
        # The store: as the clinic's client commits its second update.
        clinic.fail(
            "reset",
            **put,
            contains=update(name, CLINIC, 2),
            then=self.wants_away.set,
        )


EXPECTED = Counter(
    {
        "hq's courier": 1,
        "hq's operator": 1,
        "aggregator": 1,
        "clinic's client": 1,
        "clinic's courier": 1,
        "clinic's operator": 1,
        "join": 3,
        "store": 1,
    }
)


@pytest.fixture
def disturbed(federations: dict[str, Apart]) -> Iterator[Killer]:
    """The federation with its kills; all doors are sound afterwards."""
    apart = federations[NAME]
    with ExitStack() as stack:
        killer = Killer(apart=apart, lone=Lone(apart=apart, stack=stack))
        killer.arm()
        yield killer
        for door in apart.at.exchange.doors.values():
            door.heal()
    apart.end()


def test_kills_of_every_party_in_one_run_change_no_byte(
    disturbed: Killer, reference: dict[str, bytes]
) -> None:
    apart, since = disturbed.apart, audit.now()
    hq, clinic = apart.at.hq, apart.at.clinic
    apart.coordinate()
    apart.serve()
    deadline = time.monotonic() + 2 * LONG_SECONDS
    while (phase := hq.status(NAME).get("phase")) not in ENDS:
        disturbed.lone.revive()
        if disturbed.wants_away.is_set():
            with apart.at.exchange.away():
                time.sleep(AWAY_SECONDS)
            disturbed.wants_away.clear()
            disturbed.done.append("store")
        assert time.monotonic() < deadline, f"{disturbed.done}: {hq.story(NAME)}"
        time.sleep(0.2)
    assert phase == "Succeeded", hq.story(NAME)
    assert Counter(disturbed.done) == EXPECTED
    assert result(apart) == reference
    for where, owner in ((hq, NAME), (clinic, apart.member)):
        made = Counter(audit.created_jobs(where.cluster, owner, since))
        assert made, f"{owner} has Jobs"
        assert {job: count for job, count in made.items() if count > 1} == {}


@pytest.mark.full
def test_a_store_that_is_away_for_minutes_costs_nothing_but_time(
    federations: dict[str, Apart], reference: dict[str, bytes]
) -> None:
    apart = federations["cut-off"]
    hq, clinic = apart.at.hq, apart.at.clinic.cluster
    apart.coordinate()
    apart.serve()
    with apart.join() as lone:
        hq.wait(apart.name, lambda s: s.get("round") == 1, "a round is open")
        with apart.at.exchange.away():
            time.sleep(LONG_AWAY_SECONDS)
            conditions = clinic.get("hmem", apart.member)["status"]["conditions"]
            (connected,) = [each for each in conditions if each["type"] == "Connected"]
        assert (connected["status"], connected["reason"]) == ("False", "Unreachable"), connected
        hq.finish(apart.name)
        assert lone.process.poll() is None, lone.said
    assert result(apart) == reference
    apart.end()
