"""What joining brought a silo, in one sentence: what it serves less what it had alone."""

from hansa.api.bucket_documents import Figures
from hansa.core.stats import Interval, difference, of_rate
from hansa.core.text import count


def sentence(served: Figures, alone: Figures, effective: float | None = None) -> str:
    """The difference with its 95 % limits; empty where one of the two played nothing.

    `effective` is what the episodes are worth, where tasks were played more than once. A report may
    claim any number there: more than was played, or less than one, it is not worth.
    """
    if not served.episodes or not alone.episodes:
        return ""
    change = difference(_interval(served, effective), _interval(alone, effective))
    if change.high < 0:
        limits = f"{-100 * change.high:.1f} to {-100 * change.low:.1f}"
        return f"joining cost you {-100 * change.value:.1f} points ({limits})"
    limits = f"{_points(change.low)} to {_points(change.high)}"
    brought = f"joining brought you {_points(change.value)} points ({limits})"
    if change.low > 0:
        return brought
    played = count(min(served.episodes, alone.episodes), "episode")
    return f"{brought}: no difference shows in {played}"


def line(name: str, *, alone: str, shared: str, served: str, sentence: str) -> str:
    """A silo's three figures in per cent, as far as they are known, before its sentence."""
    known = {"alone": alone, "shared": shared, "served": served}
    figures = [f"{title} {figure}" for title, figure in known.items() if figure]
    return f"{name}: {', '.join(figures)}: {sentence}"


def _interval(figures: Figures, effective: float | None) -> Interval:
    played = float(figures.episodes)
    worth = played if effective is None else min(max(effective, 1.0), played)
    return of_rate(figures.successes / figures.episodes, worth)


def _points(change: float) -> str:
    return f"{round(100 * change, 1) + 0.0:+.1f}"  # and no -0.0
