"""A bucket for trying out on one machine: a user for each policy that `hansa policy` has printed.

    hansa policy federation.yaml webshop > webshop.policy.json        # one for each party
    python store.py *.policy.json

It is `weed`, which is installed with Hansa. Beside the policies it writes each party's keys, for
--credentials: `webshop.keys.json` for the silo, and `keys.json` with all of them and the owner's,
who may do everything, as `default`. Run again, it keeps objects and keys.

Limits: no encryption, and whoever runs programs on this machine can go around its S3 door.
"""

import argparse
import json
import os
import secrets
import sys
from pathlib import Path

from hansa.local.objectstore import find_weed
from hansa.local.ports import claim_ports

OWNER = "default"
Pair = dict[str, str]


def write(file: Path, document: object) -> None:
    """A file that only its owner may read."""
    with os.fdopen(os.open(file, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as out:
        json.dump(document, out)


def pairs(parties: list[str], folder: Path) -> dict[str, Pair]:
    """The keys of every party: those that it has, or new ones."""
    file = folder / "keys.json"
    made: dict[str, Pair] = json.loads(file.read_text()) if file.exists() else {}
    for party in parties:
        new = {
            "AWS_ACCESS_KEY_ID": secrets.token_hex(10),
            "AWS_SECRET_ACCESS_KEY": secrets.token_hex(20),
        }
        pair = made.setdefault(party, new)
        if party != OWNER:
            write(folder / f"{party}.keys.json", {party: pair})
    write(file, made)
    return made


def users(policies: dict[str, str], keys: dict[str, Pair]) -> dict[str, list[dict[str, object]]]:
    """Who may do what, in `weed`'s own words."""
    identities: list[dict[str, object]] = []
    for party, pair in keys.items():
        own = {"accessKey": pair["AWS_ACCESS_KEY_ID"], "secretKey": pair["AWS_SECRET_ACCESS_KEY"]}
        may = {"actions": ["Admin"]} if party == OWNER else {"policyNames": [party]}
        identities.append({"name": party, "credentials": [own], **may})
    named: list[dict[str, object]] = [
        {"name": party, "content": text} for party, text in policies.items()
    ]
    return {"identities": identities, "policies": named}


def main() -> None:
    """Make the users, then be the server."""
    parser = argparse.ArgumentParser(description="A bucket for trying out on one machine.")
    parser.add_argument("policy", nargs="+", type=Path, help="PARTY.policy.json")
    parser.add_argument("--bucket", default="shared")
    parser.add_argument("--port", type=int, default=8333)
    given = parser.parse_args()
    policies = {file.name.removesuffix(".policy.json"): file.read_text() for file in given.policy}
    folder = given.policy[0].absolute().parent
    data = folder / "store"
    data.mkdir(mode=0o700, exist_ok=True)
    write(data / "users.json", users(policies, pairs([*policies, OWNER], folder)))
    block = claim_ports()
    settings: dict[str, object] = {
        **block.every,
        "s3.port": given.port,
        "s3.config": data / "users.json",
        "bucket": given.bucket,
        "dir": data,
        "ip": "127.0.0.1",
        "ip.bind": "127.0.0.1",
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
        "admin.ui": "false",
        "webdav": "false",
        "master.telemetry": "false",
        "master.volumeSizeLimitMB": 64,
    }
    print(f"http://127.0.0.1:{given.port}, bucket {given.bucket}", file=sys.stderr, flush=True)
    log = os.open(data / "weed.log", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.set_inheritable(block.claim.fileno(), True)  # the ports stay taken while it runs
    weed = str(find_weed())
    flags = [f"-{name}={value}" for name, value in settings.items()]
    clean = {"PATH": os.defpath, "HOME": str(data)}  # weed would make an admin of AWS_* variables
    os.execve(weed, [weed, "-logtostderr=true", "mini", *flags], clean)  # noqa: S606


if __name__ == "__main__":
    main()
