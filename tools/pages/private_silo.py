"""Everything that leaves a silo with `spec.privacy`, field by field, and why no record shows in it.

docs/privacy.md has the table; tests compare it with the models, and with what a round writes.
"""

from collections.abc import Iterator
from typing import Any, Literal, get_args

from hansa.api.assignment import ClientReport, EvaluateReport, EvaluationReport
from hansa.api.bucket_documents import (
    AuditHead,
    Counts,
    EvaluationDocument,
    Figures,
    FileEntry,
    Learning,
    StartAdapter,
    UpdateManifest,
)
from hansa.api.letters import (
    Answer,
    FailedReply,
    Hello,
    Leave,
    Reference,
    RefusedReply,
    TakenReply,
    WaitsReply,
)
from hansa.api.privacy import PrivacyStatement
from hansa.api.secure_aggregation import MaskedUpdate
from hansa.core.model import Model

Cover = Literal["known", "noised", "withheld", "refused"]
COVERS: dict[Cover, str] = {
    "known": "all other fields; they follow from the spec, the order and public objects, whatever "
    "was explored",
    "noised": "computed from noised weights or noised successes alone",
    "withheld": "zero, empty or absent",
    "refused": "absent, since `spec.privacy` refuses what would ask for it",
}
_PLACE = ("version", "run", "environment", "serial", "previous", "kind")
_RESULT = ("program", "fingerprint", "inputs", "kind", "environment")
FIELDS: dict[type[Model], dict[Cover, tuple[str, ...]]] = {
    UpdateManifest: {
        "known": (
            *(*_RESULT, "round", "base_model", "start", "audit", "made_with", "sealed_to"),
            *("masked", "trained", "files", "counts", "learning", "privacy"),
        ),
        "noised": ("norm",),
        "withheld": ("loss", "seconds"),
    },
    FileEntry: {"known": ("size",), "noised": ("sha256",)},
    Counts: {
        "known": ("explored", "steps"),
        "withheld": ("succeeded", "broken", "experience", "kept", "tokens", "generated"),
    },
    Learning: {"withheld": tuple(Learning.model_fields)},
    PrivacyStatement: {"known": tuple(PrivacyStatement.model_fields)},
    MaskedUpdate: {"known": tuple(MaskedUpdate.model_fields)},
    StartAdapter: {"known": tuple(StartAdapter.model_fields)},
    AuditHead: {"known": tuple(AuditHead.model_fields)},
    EvaluationDocument: {
        "known": (*_RESULT, "adapter", "episodes", "temperature", "task_count"),
        "noised": ("successes", "validation"),
        "withheld": ("broken", "worth", "seconds"),
        "refused": ("greedy_figures", "probes"),
    },
    Figures: {"known": ("episodes",), "noised": ("successes",)},
    ClientReport: {
        "known": (
            *("kind", "environment", "round", "epoch", "trained", "counts", "epsilon", "bytes"),
            "evaluation",
        ),
        "noised": ("manifest", "adapter", "norm"),
        "withheld": ("solved", "kinds", "entropy", "seconds"),
        "refused": ("own",),
    },
    EvaluationReport: {
        "known": ("round", "episodes"),
        "noised": ("successes", "validation"),
        "withheld": ("broken", "effective"),
        "refused": ("probes",),
    },
    EvaluateReport: {
        "known": ("kind", "environment", "evaluation", "epsilon"),
        "withheld": ("seconds",),
        "refused": ("personal", "serves", "alone"),
    },
    Hello: {"known": (*_PLACE, "program")},
    Leave: {"known": _PLACE},
    TakenReply: {"known": (*_PLACE, "order")},
    WaitsReply: {"known": (*_PLACE, "order", "code", "seconds")},
    RefusedReply: {"known": (*_PLACE, "order", "code", "path")},
    FailedReply: {"known": (*_PLACE, "order", "exit", "attempts")},
    Answer: {"known": (*_PLACE, "order", "report"), "noised": ("evaluations",)},
    Reference: {"known": ("serial",), "noised": ("digest",)},
}
"""Every model of a document, report or letter of a silo, and how each of its fields is covered."""

_READERS: dict[str, tuple[str, tuple[type[Model], ...]]] = {
    "the update's manifest": (
        "whoever reads the bucket",
        (UpdateManifest, FileEntry, Counts, Learning, PrivacyStatement, MaskedUpdate),
    ),
    "an evaluation": ("whoever reads the bucket", (EvaluationDocument, Figures)),
    "a Job's report; status, Events and metrics are made of it": (
        "the operator, and readers of the Federation and of `/metrics`",
        (ClientReport, EvaluateReport, EvaluationReport),
    ),
    "a letter of a silo elsewhere": (
        "the coordinator, and whoever reads the bucket",
        (Hello, TakenReply, WaitsReply, RefusedReply, FailedReply, Answer, Leave, Reference),
    ),
}


def list_models(root: type[Model]) -> Iterator[type[Model]]:
    """The model and all that it has as fields, but for those that never have a value here."""
    covers = FIELDS.get(root, {})
    absent = {*covers.get("withheld", ()), *covers.get("refused", ())}
    yield root
    for name, field in root.model_fields.items():
        if name not in absent:
            for inner in _find_models(field.annotation):
                yield from list_models(inner)


def _find_models(annotation: Any) -> Iterator[type[Model]]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        yield annotation
    for part in get_args(annotation):
        yield from _find_models(part)


def find_exact(document: Model, path: str = "") -> Iterator[str]:
    """Paths of values that should have stayed in the silo."""
    covers = FIELDS[type(document)]
    for name in (*covers.get("withheld", ()), *covers.get("refused", ())):
        if getattr(document, name):
            yield f"{path}{name}"
    for name in (*covers.get("known", ()), *covers.get("noised", ())):
        value = getattr(document, name)
        parts = value.values() if isinstance(value, dict) else [value]
        for part in parts:
            if isinstance(part, Model):
                yield from find_exact(part, f"{path}{name}.")


def render_table() -> str:
    """The table as Markdown: what leaves, who reads it, and the fields that could show a record."""
    shown: tuple[Cover, ...] = ("noised", "withheld", "refused")
    lines = [f"| what leaves | who reads it | {' | '.join(shown)} |", "|---" * 5 + "|"]
    for what, (who, models) in _READERS.items():
        cells = [", ".join(_name_fields(models, cover)) for cover in shown]
        lines.append(f"| {what} | {who} | {' | '.join(cells)} |")
    meaning = [f"- **{cover}**: {why}." for cover, why in COVERS.items()]
    return "\n".join([*lines, "", *meaning])


def _name_fields(models: tuple[type[Model], ...], cover: Cover) -> list[str]:
    """As documents spell them, each once."""
    named = {
        f"`{model.model_fields[name].alias or name}`": None
        for model in models
        for name in FIELDS[model].get(cover, ())
    }
    return list(named)
