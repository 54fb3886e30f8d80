"""What joining brought a silo, in one sentence that claims no more than its episodes show."""

import pytest

from hansa.api.bucket_documents import Figures
from hansa.plan.policy import joined


def figures(successes: int, episodes: int = 100) -> Figures:
    return Figures(episodes=episodes, successes=successes)


@pytest.mark.parametrize(
    "served, alone, sentence",
    [
        pytest.param(
            figures(68), figures(50), "joining brought you +18.0 points (+4.4 to +30.7)", id="gain"
        ),
        pytest.param(
            figures(53),
            figures(50),
            "joining brought you +3.0 points (-10.7 to +16.5): no difference shows in 100 episodes",
            id="a gain that may be none",
        ),
        pytest.param(
            figures(50),
            figures(53),
            "joining brought you -3.0 points (-16.5 to +10.7): no difference shows in 100 episodes",
            id="a loss that may be none",
        ),
        pytest.param(
            figures(50), figures(68), "joining cost you 18.0 points (4.4 to 30.7)", id="loss"
        ),
        pytest.param(
            figures(1, 1),
            figures(1, 1),
            "joining brought you +0.0 points (-79.3 to +79.3): no difference shows in 1 episode",
            id="one episode",
        ),
        pytest.param(
            figures(3, 10),
            figures(30, 100),
            "joining brought you +0.0 points (-21.5 to +31.4): no difference shows in 10 episodes",
            id="as sure as the fewer episodes",
        ),
        pytest.param(
            figures(0, 0), figures(5, 10), "", id="nothing was played with what is served"
        ),
        pytest.param(figures(5, 10), figures(0, 0), "", id="nothing was played alone"),
    ],
)
def test_the_sentence(served: Figures, alone: Figures, sentence: str) -> None:
    assert joined.describe_gain(served, alone) == sentence


def test_episodes_of_the_same_tasks_are_worth_fewer() -> None:
    assert "no difference" not in joined.describe_gain(figures(68), figures(50))
    assert "no difference" in joined.describe_gain(figures(68), figures(50), 20.0)


@pytest.mark.parametrize("effective", [1e308, 100.1, -1.0, 0.0, 5e-324])
def test_no_claimed_worth_makes_it_surer_or_breaks_it(effective: float) -> None:
    claimed = joined.describe_gain(figures(68), figures(50), effective)
    assert claimed == joined.describe_gain(
        figures(68), figures(50), 100.0 if effective > 1 else 1.0
    )


@pytest.mark.parametrize(
    "served, figures_",
    [
        pytest.param("74.0%", "alone 62.0%, shared 70.0%, served 74.0%", id="it chose"),
        pytest.param("", "alone 62.0%, shared 70.0%", id="it serves what is shared"),
    ],
)
def test_three_figures_come_before_the_sentence(served: str, figures_: str) -> None:
    line = joined.format_line("maze", alone="62.0%", shared="70.0%", served=served, sentence="s")
    assert line == f"maze: {figures_}: s"
