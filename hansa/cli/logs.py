"""`hansa logs`: what the Jobs of a federation said."""

import json
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hansa.api import job_names
from hansa.cli import target
from hansa.cli.common import say
from hansa.core.errors import InputError
from hansa.core.sanitize import sanitize

if TYPE_CHECKING:
    from hansa.kubernetes.federations import Federations
    from hansa.kubernetes.pod_logs import LogLine, LogSelection
    from hansa.local.rundir import RunDir

_ORDER = ("client", "aggregator", "evaluate", "courier")
"""How the Jobs of a round follow one another."""
_SERVERS = ("aggregator", "courier")
"""Roles of Jobs that belong to no environment."""


def logs(
    cluster: target.ClusterOptions,
    run: target.OptionalRun = None,
    member: target.MemberName = None,
    environment: Annotated[
        str | None,
        typer.Option("--environment", "-e", help="Only this environment, aggregator or courier."),
    ] = None,
    round_: Annotated[int | None, typer.Option("--round", min=0, help="Only this round.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue printing, through retries and rounds.")
    ] = False,
) -> None:
    """Print the logs of the Jobs of a federation, or of a run on this machine, oldest first.

    With --member: of a silo's part in somebody else's federation.
    """
    folder = cluster.find_run(run) if run and not member else None
    if folder:
        _show_run(folder, environment, round_, follow)
        return
    from hansa.kubernetes.pod_logs import LogSelection

    things, chosen = cluster.open_either(run, member)
    choice = LogSelection(environment=environment, round=round_)
    _show_pods(things, chosen, choice, follow)


def _show_pods(federations: "Federations", name: str, choice: "LogSelection", follow: bool) -> None:
    from hansa.cli.views.federation import describe_pod_state
    from hansa.kubernetes.pod_logs import Follower, find_job_name, has_started, read, sort_pods

    _check_environment(federations.get(name)["spec"], choice.environment)
    if follow:
        for line in Follower(federations, name, choice).run():
            _print_line(line)
        return
    pods = sort_pods(federations.pods(name, choice.labels()))
    if not pods:
        raise InputError(
            f"{federations.word} {name}: no Pod fits",
            hint=f"`hansa status {federations.call(name)}` shows what there is now",
        )
    for pod in pods:
        if not has_started(pod):
            say(f"{find_job_name(pod)}: not started ({describe_pod_state(pod)})")
            continue
        for line in read(federations, pod):
            _print_line(line)


def _check_environment(
    spec: dict[str, object], wanted: str | None, past: frozenset[str] = frozenset()
) -> None:
    """Of a federation, what it lists; of a member, the silo itself; `past`: what has logs here."""
    listed, ours = spec.get("environments"), spec.get("federation")
    names = [str(e["name"]) for e in listed] if isinstance(listed, list) else []
    names = [str(ours.get("environment"))] if isinstance(ours, dict) else names
    if wanted not in (None, *_SERVERS, *names, *past):
        every = ", ".join(dict.fromkeys([*names, *sorted(past), *_SERVERS]))
        raise InputError(f"--environment: got '{wanted}', expected one of {every}")


def _print_line(line: "LogLine") -> None:
    print(f"{line.job} | {sanitize(line.text)}", flush=True)


def _show_run(folder: "RunDir", environment: str | None, round_: int | None, follow: bool) -> None:
    from hansa.local.join import is_silo, load

    thing = load(folder) if is_silo(folder) else folder.load()  # says what is wrong with it
    past = {_identify(path)[2] for path in folder.jobs.glob("*/assignment.json")}
    _check_environment(thing.spec.to_json(), environment, frozenset(past - {*_SERVERS}))
    shown: dict[Path, int] = {}
    while True:
        runs = folder.is_running()  # before the last look, so that nothing is missed
        chosen = _choose(folder.jobs, environment, round_)
        if not chosen and not follow:
            hint = f"`hansa status {folder.path}` shows what there is"
            raise InputError("no Job of this run fits", hint=hint)
        for path in chosen:
            shown[path] = _print_from(path, shown.get(path, 0))
        if not follow or not runs:
            return
        time.sleep(0.5)


def _choose(jobs: Path, environment: str | None, round_: int | None) -> list[Path]:
    """Logs that fit, by round, environment and name: an assignment tells more than a short name."""
    chosen: list[tuple[float, int, str, int, Path]] = []
    for path in jobs.glob("*/assignment.json"):
        number, role, who = _identify(path)
        log = path.with_name("log.txt")
        if environment in (None, who) and round_ in (None, number) and log.exists():
            chosen.append((number, _ORDER.index(role), who, len(log.parent.name), log))
    return [log for *_, log in sorted(chosen)]


def _identify(assignment: Path) -> tuple[float, str, str]:
    """Round, role and environment of a Job; couriers come last, for all rounds."""
    task, job = json.loads(assignment.read_text()), assignment.parent.name
    role = str(task["role"])
    if role == "courier":
        return math.inf, role, role
    if "member" in task:  # a silo's: its round is in the order, which it reads itself
        environment = str(task["member"]["federation"]["environment"])
        return job_names.round_of_silo_job(job), role, environment
    return int(task["round"]), role, str(task.get("environment") or "aggregator")


def _print_from(path: Path, offset: int) -> int:
    with path.open("rb") as file:
        file.seek(offset)
        text = file.read()
    for line in text.decode(errors="replace").splitlines():
        print(f"{path.parent.name} | {sanitize(line)}", flush=True)
    return offset + len(text)
