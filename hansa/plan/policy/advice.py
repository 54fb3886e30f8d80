"""Warnings about specs that are valid but probably unintended, by the Event's reason."""

import re
from difflib import get_close_matches

from hansa.api import learners, strategies
from hansa.api.constants import EventReason
from hansa.api.spec import FederationSpec
from hansa.api.storage import Storage

_HERE = re.compile(r"http://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?(/.*)?")
_LIKENESS = 0.8
"""Of two names, by difflib; `trimed-mean` and `trimmed-mean` have 0.96."""


def warnings(spec: FederationSpec) -> list[tuple[EventReason, str]]:
    """Reasons and sentences, in the order in which they are shown."""
    return [
        *(("NotEncrypted", each) for each in find_unencrypted(spec)),
        *(("MaybeMisspelled", each) for each in find_misspelled(spec)),
    ]


def find_unencrypted(spec: FederationSpec) -> list[str]:
    """A sentence for each endpoint that is not this machine's own and has no https."""
    named = {"spec.storage.s3.endpoint": _address(spec.storage)}
    for index, environment in enumerate(spec.environments):
        path, turns = f"spec.environments[{index}]", environment.endpoint
        named[f"{path}.experienceStorage.s3.endpoint"] = _address(environment.experience_storage)
        named[f"{path}.endpoint.url"] = turns.url if turns else ""
    return [
        f"{path}: {address} is not encrypted: anyone on the network path can read what is sent; "
        "use https"
        for path, address in named.items()
        if address.startswith("http://") and not _HERE.fullmatch(address)
    ]


def _address(storage: Storage | None) -> str:
    return (storage.s3.endpoint or "") if storage else ""


def find_misspelled(spec: FederationSpec) -> list[str]:
    """A sentence for each name that is none of the builtin ones and looks like one.

    The operator does not know which plug-ins the images have: a strategy that the server's image
    lacks fails at the first merge, after every silo has played and trained.
    """
    named = {
        "spec.aggregation.strategy": (spec.aggregation.strategy, list(strategies.BUILTIN)),
        "spec.training.learner": (spec.training.learner, list(learners.BUILTIN)),
    }
    return [
        f"{path}: {name} is no builtin name, so an image must provide it; did you mean {close[0]}?"
        for path, (name, builtin) in named.items()
        if name not in builtin and (close := get_close_matches(name, builtin, 1, _LIKENESS))
    ]
