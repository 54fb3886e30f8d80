"""Can somebody tell from an adapter whether a task was trained on? A likelihood-ratio attack.

    python bench/privacy/membership.py run --shadow 0 --out membership/plain-0.json
    python bench/privacy/membership.py run --shadow 0 --sigma 1 --out membership/private-0.json
    python bench/privacy/membership.py show membership --json docs/results/privacy-membership.json

Shadow runs are equal but for which demonstrations each silo is shown: every one is in half of the
runs. Nothing is explored, so records are known exactly, and each takes part in every round. Each
run in turn is attacked with the others (LiRA, Carlini et al. 2022): a task counts as a member the
more, the better its log-likelihood fits those of runs that had it than of those that had it not.
The attacker knows everything but the membership and the noise, as differential privacy assumes.
"""

import argparse
import random
from typing import Any

import numpy as np
import private_play
from numpy.typing import NDArray
from remembering import Remembering

from hansa_client import trajectory
from hansa_client.trajectory import Episode
from tools.pages import privacy_tables

SHADOWS = 16
SEED = 21
"""Of the federation: the same for all shadow runs, since a spec's seed is public."""
DRAWS = 1000
FALSE_ALARMS = 0.01
Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]


def is_member(environment: str, task: str, shadow: int, shadows: int) -> bool:
    """Whether a run has a task: each task is in half of the runs, chosen by itself."""
    drawn = random.Random(f"{environment}/{task}")
    return shadow in drawn.sample(range(shadows), shadows // 2)


class Shadow(Remembering):
    """A federation whose silos have half of the tasks each."""

    def chosen(self, environment: str, episodes: list[Episode]) -> list[Episode]:
        given = self._given
        return [
            episode
            for episode in episodes
            if is_member(environment, episode.task, given.shadow, given.shadows)
        ]

    def look(self) -> None:
        fields: dict[str, Any] = {}
        for environment in self._environments:
            episodes, agent = self.experts(environment)
            name, longest = environment.name, agent.base.cap_length(self._spec.training.max_length)
            rows = [trajectory.render_all(episode, longest)[0] for episode in episodes]
            counts = [sum(row.is_agent) for row in rows]
            fields[name] = {"tasks": [episode.task for episode in episodes]}
            for who, tensors in (("shared", self.final), ("own", self.owns[name])):
                found = self.likelihoods(agent, tensors, rows)
                fields[name][who] = [round(s / n, 6) for s, n in zip(found, counts, strict=True)]
        self.more |= {
            "members": fields,
            "shadow": self._given.shadow,
            "shadows": self._given.shadows,
        }


def attacked(scores: Numbers, members: Flags) -> Numbers:
    """Of each run and task, how much more its score is a member's; axes are run and task.

    As many runs with the task as without are looked at, so that no answer shows in their number.
    The spread is that of all tasks: one task has too few runs to have its own.
    """
    made = np.zeros_like(scores)
    runs = np.arange(len(scores))
    inside, outside = (_spread(scores, which) for which in (members, ~members))
    for run in runs:
        others = runs != run
        for task in range(scores.shape[1]):
            own = scores[others, task]
            has = members[others, task]
            count = min(has.sum(), (~has).sum())
            with_, without = own[has][:count].mean(), own[~has][:count].mean()
            score = scores[run, task]
            made[run, task] = (score - without) ** 2 / outside - (score - with_) ** 2 / inside
    return made


def _spread(scores: Numbers, which: Flags) -> float:
    """Mean variance of a task's scores over the runs in question."""
    masked = np.ma.array(scores, mask=~which)
    return max(float(masked.var(axis=0, ddof=1).mean()), 1e-12)


def auc(scores: Numbers, members: Flags) -> float:
    """Chance that a member's score is above another's; 0.5 is guessing."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    inside = int(members.sum())
    return float(
        (ranks[members].sum() - inside * (inside + 1) / 2) / inside / (len(members) - inside)
    )


def found_at(scores: Numbers, members: Flags) -> float:
    """Share of members found where one in a hundred others is taken for one."""
    return float((scores[members] > np.quantile(scores[~members], 1 - FALSE_ALARMS)).mean())


def measured(results: list[dict[str, Any]], who: str) -> dict[str, Any]:
    """Figures of one kind of runs, with 95 % intervals of a bootstrap over runs."""
    attacks, members = [], []
    for name in sorted(results[0]["members"]):
        tasks = results[0]["members"][name]["tasks"]
        scores = np.array([run["members"][name][who] for run in results])
        own = np.array(
            [[is_member(name, t, r["shadow"], r["shadows"]) for t in tasks] for r in results]
        )
        attacks.append(attacked(scores, own))
        members.append(own)
    made, all_ = np.concatenate(attacks, axis=1), np.concatenate(members, axis=1)
    random_ = np.random.RandomState(1)
    drawn = [random_.randint(0, len(made), len(made)) for _ in range(DRAWS)]
    figures = {}
    for name, figure in (("auc", auc), ("found", found_at)):
        values = [figure(made[each].ravel(), all_[each].ravel()) for each in drawn]
        limits = np.percentile(values, [2.5, 97.5])
        whole = figure(made.ravel(), all_.ravel())
        figures[name] = [round(float(each), 4) for each in (whole, *limits)]
    return {"tasks": made.shape[1], **figures}


def summarized(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The table's lines as data, by noise and by who looks."""
    lines = []
    for sigma in sorted({result["sigma"] or 0.0 for result in results}):
        runs = [result for result in results if (result["sigma"] or 0.0) == sigma]
        runs.sort(key=lambda run: int(run["shadow"]))
        spent = max((e for run in runs for e in run["epsilon"].values() if e), default=None)
        for who in ("shared", "own"):
            own = {"sigma": sigma, "epsilon": spent, "who": who, "runs": len(runs)}
            lines.append({**own, **measured(runs, who)})
    return lines


def add_flags(run: argparse.ArgumentParser) -> None:
    """Those of a shadow run."""
    run.add_argument("--shadow", type=int, required=True, help="number of the run, from 0 on")
    run.add_argument("--shadows", type=int, default=SHADOWS, help="runs in all, an even number")
    run.set_defaults(seed=SEED, explore=0, demonstrations=256, tasks=20)


def main() -> None:
    """Play one shadow run, or attack many."""
    table = privacy_tables.membership
    private_play.command(__doc__, Shadow, "members", add_flags, summarized, table)


if __name__ == "__main__":
    main()
