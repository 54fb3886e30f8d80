"""Who brought nothing to the federation, and as far as the manifests say, why."""

from hansa.report.markup import Html, counted, tag
from hansa.report.run_facts import EnvironmentRound, ReportData


def note(data: ReportData) -> Html | None:
    """The sentences as one note; nothing where every environment contributed."""
    said = sentences(data)
    if not said:
        return None
    opening = "Some environments contributed nothing, or never succeeded while exploring. "
    return tag("div", tag("p", tag("strong", opening), " ".join(said)), class_="trouble")


def sentences(data: ReportData) -> list[str]:
    """One sentence for each environment without a merged update or without a success."""
    if not data.played:  # nothing is known, so nothing is said
        return []
    names = [environment.name for environment in data.federation.spec.environments]
    return [sentence for name in names if (sentence := _sentence(data, name))]


def _sentence(data: ReportData, name: str) -> str:
    parts = [entry.parts[name] for entry in data.played if name in entry.parts]
    if not parts:
        return f"{name} sent no update."
    explored, succeeded = (sum(pick(part) or 0 for part in parts) for pick in (_played, _won))
    is_barren = explored > 0 and not succeeded
    if _is_merged(data, name):
        episodes = f"None of the {counted(explored, 'episode')} that {name} explored succeeded"
        return f"{episodes}." if is_barren else ""
    reasons = sorted({why for e in data.rounds for who, why in e.refused if who == name})
    why = f": the gate refused it ({', '.join(reasons)})" if reasons else ""
    if not reasons and is_barren:
        why = f": none of its {counted(explored, 'explored episode')} succeeded"
    return f"No update of {name} was merged{why}."


def _is_merged(data: ReportData, name: str) -> bool:
    """Whether a round merged its update; where nothing is ever merged, every update counts."""
    merging = [entry for entry in data.rounds if entry.members]
    return not merging or any(name in entry.members for entry in merging)


def _played(part: EnvironmentRound) -> int | None:
    return part.explored


def _won(part: EnvironmentRound) -> int | None:
    return part.succeeded
