"""What joining brought a silo, in one sentence: what it serves less what it had alone."""

from hansa.api.bucket_documents import Figures
from hansa.core.stats import Interval, difference, rate_interval
from hansa.core.text import count


def describe_gain(served: Figures, alone: Figures, effective: float | None = None) -> str:
    """The difference with its 95 % limits; empty where one of the two played nothing.

    `effective` is the effective sample size, where tasks were played more than once. A report may
    claim any number, so it is clamped between one and the episodes played.
    """
    if not served.episodes or not alone.episodes:
        return ""
    change = difference(_estimate(served, effective), _estimate(alone, effective))
    if change.high < 0:
        limits = f"{-100 * change.high:.1f} to {-100 * change.low:.1f}"
        return f"joining cost you {-100 * change.value:.1f} points ({limits})"
    limits = f"{_format_points(change.low)} to {_format_points(change.high)}"
    brought = f"joining brought you {_format_points(change.value)} points ({limits})"
    if change.low > 0:
        return brought
    played = count(min(served.episodes, alone.episodes), "episode")
    return f"{brought}: no difference shows in {played}"


def format_line(name: str, *, alone: str, shared: str, served: str, sentence: str) -> str:
    """A silo's three figures in per cent, as far as they are known, before its sentence."""
    known = {"alone": alone, "shared": shared, "served": served}
    figures = [f"{title} {figure}" for title, figure in known.items() if figure]
    return f"{name}: {', '.join(figures)}: {sentence}"


def _estimate(figures: Figures, effective: float | None) -> Interval:
    played = float(figures.episodes)
    worth = played if effective is None else min(max(effective, 1.0), played)
    return rate_interval(figures.successes / figures.episodes, worth)


def _format_points(change: float) -> str:
    return f"{round(100 * change, 1) + 0.0:+.1f}"  # and no -0.0
