"""The methods of a comparison: small changes of one manifest, each by what makes it that method.

What a method does not set is the manifest's, so that two methods differ in nothing else.
"""

import copy
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

Document = dict[str, Any]

CENTRE = "centre"
"""Name of the one environment that a pooled method has."""

_FED_SE: Document = {
    "exploration": {"temperature": 1.0},
    "experience": {"filter": "success", "history": True, "circles": "keep"},
    "training": {"learner": "success-sft"},
    "aggregation": {"strategy": "mean", "serverStep": 1.0},
    "personalization": "none",
    "evaluation": {"alone": False},  # local-evolution is that, once for all methods
}
_SHOWN_ONLY: Document = {"exploration": {"tasksPerRound": 0}}
_KINDS = {"aggregation": "strategy", "training": "learner"}
"""Fields that name what has options beside it."""
_APART: Document = {"aggregation": {"strategy": "none"}}


@dataclass(frozen=True, kw_only=True)
class Method:
    """One way to make the agents."""

    about: str
    """One line for tables and docs."""
    patch: Document = field(default_factory=dict)
    """Fields of the spec that it sets, over those of Fed-SE."""
    pooled: bool = False
    """Whether one silo has all worlds, and so all trajectories."""
    trains: bool = True
    """False: the base model is scored as it is."""


METHODS: dict[str, Method] = {
    "pre-trained": Method(about="the base model as it is", trains=False),
    "local": Method(about="each silo alone, demonstrations only", patch={**_SHOWN_ONLY, **_APART}),
    "local-evolution": Method(about="each silo alone, explores as in Fed-SE", patch=_APART),
    "centralized": Method(about="one silo has all demonstrations", patch=_SHOWN_ONLY, pooled=True),
    "centralized-evolution": Method(about="one silo has all worlds and explores", pooled=True),
    "fedit": Method(
        about="federated, demonstrations only, weighted by their number",
        patch={
            **_SHOWN_ONLY,
            "aggregation": {"strategy": "weighted-mean", "options": {"weightBy": "examples"}},
        },
    ),
    "fed-se": Method(about="the paper: explore, keep successes, plain mean of A and of B"),
    "fed-se+personal": Method(
        about="Fed-SE, and each silo serves what is best on its own validation tasks",
        patch={"personalization": "best"},
    ),
    "no-history": Method(
        about="Fed-SE without successes of earlier rounds", patch={"experience": {"history": False}}
    ),
    "no-filter": Method(
        about="Fed-SE that learns from failures too", patch={"experience": {"filter": "none"}}
    ),
    "success-weighted": Method(
        about="Fed-SE weighted by the round's successes",
        patch={"aggregation": {"strategy": "weighted-mean", "options": {"weightBy": "successes"}}},
    ),
}
"""Methods by name; an entry of a comparison may change any field of one and give it a new name."""


def merge_documents(document: Any, patch: Any) -> Any:
    """The document with a patch over it: mappings field by field, everything else as a whole.

    Another strategy or learner begins without the options of the one before it.
    """
    if not isinstance(document, dict) or not isinstance(patch, dict):
        return copy.deepcopy(patch)
    if any(name in patch and patch[name] != document.get(name) for name in ("strategy", "learner")):
        document = {name: value for name, value in document.items() if name != "options"}
    return {
        **copy.deepcopy(document),
        **{name: merge_documents(document.get(name), value) for name, value in patch.items()},
    }


def drop_stores(spec: Document) -> Document:
    """The spec for a store of the run's own: a comparison never writes into a bucket."""
    spec = {name: value for name, value in spec.items() if name != "storage"}
    environments = spec.get("environments")
    if isinstance(environments, list):
        dropped = ("experienceStorage", "experienceKeySecret", "credentialsSecret")
        spec["environments"] = [
            {k: v for k, v in each.items() if k not in dropped} if isinstance(each, dict) else each
            for each in environments
        ]
    return spec


def apply_method(
    spec: Document, shared: Document, method: Method, patch: Document, seed: int
) -> Document:
    """The spec of one run: the manifest's, then the fields of Fed-SE, of the comparison for all
    methods, of the method, and of the entry.

    Options of the manifest's own strategy and learner are for the methods that use these.
    """
    own, shared = spec, _drop_bare_options(shared)
    for each in (_FED_SE, shared, method.patch, patch, {"seed": seed}):
        spec = merge_documents(spec, each)
    for part, kind in _KINDS.items():
        theirs, made = own.get(part), spec[part]
        if (
            isinstance(theirs, dict)
            and theirs.get(kind, _FED_SE[part][kind]) == made[kind]
            and "options" in theirs
        ):
            options = merge_documents(theirs["options"], made.get("options", {}))
            spec = {**spec, part: {**made, "options": options}}
    return spec


def _drop_bare_options(shared: Document) -> Document:
    """The comparison's fields without options of the manifest's strategy and learner."""
    return {
        name: {k: v for k, v in part.items() if k != "options"}
        if name in _KINDS and isinstance(part, dict) and _KINDS[name] not in part
        else part
        for name, part in shared.items()
    }


def drop_environments(spec: Document, names: Collection[str]) -> Document:
    """The spec without the environments of these names, which then need not answer either."""
    part = [each for each in spec["environments"] if each["name"] not in names]
    participation = dict(spec.get("participation", {}))
    if participation.get("minimumUpdates"):
        participation["minimumUpdates"] = min(participation["minimumUpdates"], len(part))
    return {**spec, "participation": participation, "environments": part}


def pool_environments(spec: Document) -> Document:
    """The spec with all its environments as one, which has their worlds, names and tasks."""
    worlds = [
        {
            key: each[key]
            for key in ("name", "world", "options", "demonstrations", "demonstrationsFrom")
            if each.get(key) not in (None, "", {})
        }
        for each in spec["environments"]
    ]
    centre = {"name": CENTRE, "world": "mixed", "options": {"worlds": worlds}}
    spec = {**spec, **_choose_engine(spec, centre)}
    participation = {
        name: value
        for name, value in spec.get("participation", {}).items()
        if name != "minimumUpdates"
    }
    return {**spec, "participation": participation, "environments": [centre]}


def _choose_engine(spec: Document, centre: Document) -> Document:
    """Endpoints of silos are their own: the one that all have serves them together, too."""
    first, *others = (each.get("endpoint") for each in spec["environments"])
    if first and all(each == first for each in others):
        centre["endpoint"] = first
        return {}
    exploration = spec.get("exploration", {})
    if exploration.get("engine") != "openai":
        return {}
    return {"exploration": {**exploration, "engine": "auto"}}
