"""The page's small print: state, rounds, spec, versions, and how to use the adapter."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import yaml

from hansa.adapter.lora import base_name
from hansa.adapter.model_card import render_base_code
from hansa.report.markup import (
    Child,
    Html,
    Section,
    details,
    duration,
    format_time,
    percent,
    section,
    strip_credentials,
    table,
    tag,
)
from hansa.report.redact import redact
from hansa.report.run_facts import ReportData, Round
from hansa.version import __version__


def render_adapter(data: ReportData) -> Section | None:
    """Where the adapter is and the lines that load it."""
    last = data.federation.status.adapter
    if last is None:
        return None
    where = data.adapter or strip_credentials(last.uri)
    folder = shlex.quote(str(Path(data.adapter).parent))
    run = folder if data.adapter else data.federation.metadata.name
    fetch = " copies it to a folder; name that folder below."
    return section(
        "adapter",
        "Use the adapter",
        tag(
            "p",
            f"The adapter of round {last.round} is an ordinary PEFT folder: ",
            tag("code", where, class_="path", data_figure="adapter", data_sha256=last.sha256),
        ),
        None if data.adapter else tag("p", tag("code", "hansa pull"), fetch),
        tag("p", tag("code", f"hansa serve {run}"), " serves it with OpenAI's API."),
        tag("pre", tag("code", build_snippet(data)), tabindex=0, aria_label="Python that loads it"),
    )


def build_snippet(data: ReportData) -> str:
    """Five lines of Python that load the base model with the adapter."""
    source = data.federation.spec.model.source
    folder = json.dumps(data.adapter or "adapter")
    lines = ["from peft import PeftModel"]
    lines.append("from transformers import AutoModelForCausalLM")
    base = render_base_code(source)
    if revision := base_name(source).revision:
        base += f", revision={json.dumps(revision)}"
    if source.startswith("builtin:"):
        lines.insert(0, "from importlib.resources import files")
    elif not source.startswith(("path:", "hf:")):
        lines.append(f"# base: your copy of {strip_credentials(source)}")
    lines.append(f"base = AutoModelForCausalLM.from_pretrained({base})")
    lines.append(f"agent = PeftModel.from_pretrained(base, {folder})")
    return "\n".join(lines)


def render_particulars(data: ReportData) -> Section:
    """Everything that explains the figures above."""
    running = data.federation.status.phase not in ("Succeeded", "Pending")
    return section(
        "particulars",
        "Particulars",
        _notes(data),
        details("Environments", _environments(data), open_=running),
        details("Rounds", _rounds(data)) if data.rounds else None,
        details("Conditions", _conditions(data)) if data.federation.status.conditions else None,
        details(
            "Present spec", tag("pre", tag("code", dump_spec(data)), tabindex=0, aria_label="Spec")
        ),
        details("Versions", _versions(data)),
    )


def _notes(data: ReportData) -> Html | None:
    if not data.notes:
        return None
    return tag("ul", *(tag("li", note) for note in data.notes), class_="notes")


def _environments(data: ReportData) -> Html:
    status = {one.name: one for one in data.federation.status.environments}
    rows: list[Sequence[Child]] = []
    for name in data.environments:
        one = status.get(name)
        cells = [one.state, one.attempt, one.experience, one.message] if one else ["–"] * 4
        rows.append([name, data.world(name) or "removed", *cells])
    heads = ["environment", "world", "state", "attempt", "experience", "message"]
    return table(heads, rows, caption="State of each environment", class_="prose")


def _rounds(data: ReportData) -> Html:
    heads = ["round", "outcome", "updates", "refused", "step", "opened", "took", "mean success"]
    rows = [_round(entry) for entry in data.rounds]
    return table(heads, rows, caption="How each round ended", class_="prose")


def _round(entry: Round) -> list[Child]:
    took = None
    if entry.opened_at and entry.closed_at:
        took = (entry.closed_at - entry.opened_at).total_seconds()
    refused = ", ".join(f"{name} ({reason})" for name, reason in entry.refused)
    success = percent(entry.success.value) if entry.success else "–"
    return [
        entry.number,
        f"{entry.outcome}: {entry.message}" if entry.message else entry.outcome,
        entry.updates or "–",
        refused or "–",
        "–" if entry.server_step is None else f"{entry.server_step:.3g}",
        format_time(entry.opened_at),
        duration(took),
        success,
    ]


def _conditions(data: ReportData) -> Html:
    rows = [
        [
            one.type,
            one.status,
            one.reason,
            one.message or "–",
            format_time(one.last_transition_time),
        ]
        for one in data.federation.status.conditions
    ]
    heads = ["condition", "status", "reason", "message", "since"]
    return table(heads, rows, caption="Conditions of the federation", class_="prose")


def _versions(data: ReportData) -> Html:
    rows = [("this page", f"hansa {__version__}"), *data.programs]
    if data.base_model:
        rows.append(("base model, sha256", data.base_model))
    last = data.federation.status.adapter
    if last is not None:
        rows.append((f"adapter of round {last.round}, sha256", last.sha256))
    return table(
        ["document", "version"],
        rows,
        caption="Versions of the programs, and digests",
        class_="prose",
    )


def dump_spec(data: ReportData) -> str:
    """The spec as users write it, without what looks like a secret."""
    document = {
        "apiVersion": data.federation.api_version,
        "kind": data.federation.kind,
        "metadata": {"name": data.federation.metadata.name},
        "spec": redact(data.federation.spec.to_json()),
    }
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=88)
    return text
