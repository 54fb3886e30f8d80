"""`hansa delete`: take a federation off the cluster; what it has stored stays."""

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansa.cli import target
from hansa.cli.common import say
from hansa.cli.wait import Timeout
from hansa.core.errors import HansaError

if TYPE_CHECKING:
    from hansa.kubernetes.federations import Federations

LOOK_SECONDS = 0.5


def delete(
    name: target.Name,
    cluster: target.ClusterOptions,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until its Jobs and Pods are gone too.")
    ] = False,
    timeout: Timeout = "0",
) -> None:
    """Delete a federation with its Jobs and Pods; adapters and experience stay in the bucket."""
    patience = target.parse_timeout(timeout)
    federations = cluster.open_either(name, None)[0]
    federation = federations.get(name)
    uid = str(federation["metadata"]["uid"])
    owners = {uid, *_list_uids(federations.children(name, {uid}))} if wait else set()
    federations.delete(name)
    if wait:
        _wait_until_gone(federations, name, owners, patience)
    print(f"federation/{name} deleted")
    storage = ((federation.get("spec") or {}).get("storage") or {}).get("s3") or {}
    place = f"s3://{storage.get('bucket')}/{storage.get('prefix', '')}"
    say(f"{place} is untouched: applying the same manifest continues from there")


def _list_uids(items: list[dict[str, Any]]) -> set[str]:
    return {str(item["metadata"]["uid"]) for item in items}


def _wait_until_gone(
    federations: "Federations", name: str, owners: set[str], patience: float
) -> None:
    """Wait for the object, its Jobs and their Pods; one of the same name made since is another."""
    deadline = time.monotonic() + patience
    while left := _list_remaining(federations, name, owners):
        if time.monotonic() >= deadline:
            raise HansaError(
                f"federation {name}: not gone after {patience:g} s, left: {', '.join(left[:5])}",
                hint=f"kubectl -n {federations.namespace} get jobs,pods shows their state",
            )
        time.sleep(LOOK_SECONDS)


def _list_remaining(federations: "Federations", name: str, owners: set[str]) -> list[str]:
    children = federations.children(name, owners)
    owners |= _list_uids(children)  # Pods outlive their Jobs
    federation = federations.find(name)
    present = [federation] if federation and federation["metadata"]["uid"] in owners else []
    return [str(item["metadata"]["name"]) for item in (*present, *children)]
