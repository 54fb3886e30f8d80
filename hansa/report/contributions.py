"""Environments that brought nothing to the federation, and why, as far as the manifests say."""

from hansa.report.markup import Html, pluralize, tag
from hansa.report.run_facts import ReportData


def note(data: ReportData) -> Html | None:
    """A sentence for each such environment; nothing where every environment contributed."""
    if not data.played:  # no manifest was read, so nothing is known
        return None
    names = [environment.name for environment in data.federation.spec.environments]
    sentences = [sentence for name in names if (sentence := _sentence(data, name))]
    if not sentences:
        return None
    opening = "Some environments contributed nothing, or never succeeded while exploring. "
    return tag("div", tag("p", tag("strong", opening), " ".join(sentences)), class_="trouble")


def _sentence(data: ReportData, name: str) -> str:
    parts = [entry.parts[name] for entry in data.played if name in entry.parts]
    if not parts:
        return f"{name} sent no update."
    explored = sum(part.explored or 0 for part in parts)
    is_barren = explored > 0 and not any(part.succeeded for part in parts)
    if _is_merged(data, name):
        episodes = f"None of the {pluralize(explored, 'episode')} that {name} explored succeeded"
        return f"{episodes}." if is_barren else ""
    reasons = sorted({why for e in data.rounds for who, why in e.refused if who == name})
    why = f": the gate refused it ({', '.join(reasons)})" if reasons else ""
    if not reasons and is_barren:
        why = f": none of its {pluralize(explored, 'explored episode')} succeeded"
    return f"No update of {name} was merged{why}."


def _is_merged(data: ReportData, name: str) -> bool:
    """Whether a round merged its update; where nothing is ever merged, every update counts."""
    merging = [entry for entry in data.rounds if entry.members]
    return not merging or any(name in entry.members for entry in merging)
