"""`hansa wait`: return when a federation has reached a goal; for scripts."""

import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from hansa.cli import target
from hansa.cli.common import say_lost
from hansa.core.errors import HansaError, InputError

Timeout = Annotated[
    str, typer.Option("--timeout", help="How long to wait, as 90s, 10m or 1h30m; 0: no limit.")
]
Goal = Callable[[dict[str, Any] | None], bool]
"""Whether a federation has reached the goal; None is one that was deleted."""


def wait(
    name: target.Name,
    cluster: target.ClusterOptions,
    for_: Annotated[
        str,
        typer.Option(
            "--for", help="What to wait for: succeeded, round=N (round N has ended) or deleted."
        ),
    ] = "succeeded",
    timeout: Timeout = "0",
) -> None:
    """Wait until a federation has succeeded, has ended a round or is deleted.

    Exit code 0 when that has happened, 1 when it no longer can or the timeout has passed.
    """
    from hansa.kubernetes.errors import Absent
    from hansa.kubernetes.watch import follow

    is_met, patience = _parse_goal(for_), target.parse_timeout(timeout)
    federations, name = cluster.open_either(name, None)
    last: dict[str, Any] | None = None
    try:
        for last in follow(federations, name, deadline=time.monotonic() + patience, lost=say_lost):
            if is_met(last):
                print(f"federation/{name} {_format_goal(for_)}")
                return
            _refuse_hopeless(name, for_, last, federations.call(name))
    except Absent:
        if for_ != "deleted":
            raise
        print(f"federation/{name} {_format_goal(for_)}")
        return
    raise HansaError(
        f"federation {name}: not {for_} within {timeout}: {_describe_state(last)}",
        hint=f"`hansa status {federations.call(name)}` says what it waits for",
    )


def _parse_goal(text: str) -> Goal:
    from hansa.kubernetes.state import find_closed_round, has_succeeded

    if text == "succeeded":
        return lambda federation: federation is not None and has_succeeded(federation)
    if text == "deleted":
        return lambda federation: federation is None
    kind, _, number = text.partition("=")
    if kind == "round" and number.isdecimal() and int(number) > 0:
        return lambda federation: (
            federation is not None
            and _has_adapter(federation, int(number), find_closed_round(federation))
        )
    raise InputError(f"--for: got {text!r}, expected succeeded, round=N or deleted")


def _has_adapter(federation: dict[str, Any], number: int, closed: int) -> bool:
    """Whether that round has ended well; a failed one says so through `_refuse_hopeless`."""
    failed = (federation.get("status") or {}).get("failed") or {}
    return closed >= number and failed.get("round", 0) < number


def _format_goal(for_: str) -> str:
    return f"{for_} has ended" if for_.startswith("round") else for_


def _refuse_hopeless(name: str, for_: str, federation: dict[str, Any] | None, call: str) -> None:
    from hansa.kubernetes.state import describe_progress, has_failed, has_succeeded

    if for_ == "deleted":
        return
    if federation is None:
        raise HansaError(f"federation {name}: it was deleted while waiting")
    if has_failed(federation):
        raise HansaError(
            f"federation {name}: Failed: {describe_progress(federation)}",
            hint=f"`hansa status {call}` says more",
        )
    if has_succeeded(federation):  # all rounds are done, and that one was not among them
        rounds = (federation.get("spec") or {}).get("rounds")
        done = "its only round is" if rounds == 1 else f"all its {rounds} rounds are"
        raise HansaError(f"federation {name}: not {for_}: {done} done")


def _describe_state(federation: dict[str, Any] | None) -> str:
    from hansa.kubernetes.state import describe_progress, get_status

    phase = get_status(federation or {}).get("phase") or "Pending"
    return f"{phase}: {describe_progress(federation or {}) or 'no status yet'}"
