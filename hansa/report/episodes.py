"""Episodes as conversations: what the agent did in the first round and what it does in the last."""

from hansa.report.markup import Html, Section, format_short, pluralize, section, tag
from hansa.report.run_facts import EpisodeMessage, EpisodePair, ReportData, ShownEpisode

MOST_TURNS = 40
LONGEST_TEXT = 1_200


def show(data: ReportData) -> Section | None:
    """One episode per environment from its first and its last round, side by side."""
    if not data.episodes:
        return None
    lead = (
        "The first episode in the environment's first and last shard of experience: nobody chose "
        "them. The tasks differ, and the agent samples, so read them as examples."
    )
    warning = "Episodes are a silo's private data: before you pass this page on, leave them out by "
    return section(
        "episodes",
        "Episodes",
        tag("p", lead, class_="lead"),
        tag("p", warning, tag("code", "hansa report --no-episodes"), ".", class_="hint"),
        *(_pair(data, pair) for pair in data.episodes),
        _note_missing(data),
    )


def _note_missing(data: ReportData) -> Html | None:
    missing = len(data.federation.spec.environments) - len(data.episodes)
    if missing <= 0:
        return None
    others = pluralize(missing, "more environment")
    return tag("p", f"No episodes are shown of {others}.", class_="hint")


def _pair(data: ReportData, pair: EpisodePair) -> Html:
    world = data.world(pair.environment)
    aside = tag("small", world) if world and world != pair.environment else None
    episodes = [
        _episode(episode, word)
        for episode, word in ((pair.first, "first"), (pair.last, "last"))
        if episode
    ]
    heading = tag("h3", pair.environment, aside)
    return tag("article", heading, tag("div", *episodes, class_="pair"), class_="world-episodes")


def _episode(episode: ShownEpisode, word: str) -> Html:
    badge = ("success", "good") if episode.success else ("no success", "bad")
    reward = f"reward {format_short(episode.reward)}" if episode.reward is not None else None
    head = tag(
        "header",
        tag("strong", f"Round {episode.round}"),
        tag("span", badge[0], class_=f"badge {badge[1]}"),
        tag("span", reward, class_="muted") if reward else None,
        tag("code", episode.task, class_="task") if episode.task else None,
    )
    turns = [_turn(turn) for turn in episode.turns[:MOST_TURNS]]
    more = len(episode.turns) - MOST_TURNS
    rest = tag("li", pluralize(more, "more turn"), class_="more") if more > 0 else None
    return tag(
        "div",
        head,
        tag(
            "ol",
            *turns,
            rest,
            class_="chat",
            tabindex=0,
            aria_label=f"Turns of round {episode.round}",
        ),
        class_="episode",
        data_episode=word,
        data_round=episode.round,
        data_success="true" if episode.success else "false",
    )


def _turn(turn: EpisodeMessage) -> Html:
    who = "agent" if turn.role == "agent" else "world"
    text = turn.text.strip()
    more = len(text) - LONGEST_TEXT
    rest = tag("em", f" … {pluralize(more, 'more character')}") if more > 0 else None
    said = tag("bdi", text[:LONGEST_TEXT] or "(nothing)", dir="auto")
    speaker = tag("span", who, class_="who")
    return tag("li", speaker, tag("div", said, rest, class_="said"), class_=who)
