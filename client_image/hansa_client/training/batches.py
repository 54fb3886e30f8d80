"""Batches: which trajectories share an optimizer step, decided before training, without torch."""

from collections.abc import Sequence

from hansa_client import seeds


def plan(
    lengths: Sequence[int], *, batch_tokens: int, epochs: int, max_steps: int, seed: int
) -> list[list[int]]:
    """The steps of a round, each a list of indexes; padding counts as tokens.

    Similar lengths go together, so little is padded; the batches of an epoch come in random order,
    so a cap on the steps leaves out a random part and not the longest trajectories.
    """
    random = seeds.generator(seed)
    steps: list[list[int]] = []
    for _ in range(epochs):
        order = sorted(random.permutation(len(lengths)).tolist(), key=lambda i: lengths[i])
        batches = filled(order, lengths, batch_tokens)
        steps += [batches[index] for index in random.permutation(len(batches)).tolist()]
        if max_steps and len(steps) >= max_steps:
            return steps[:max_steps]
    return steps


def filled(order: Sequence[int], lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """The order cut so that rows times the longest row fit; one too long is alone."""
    batches: list[list[int]] = []
    for index in order:  # lengths grow along the order, so this row is the batch's longest
        if batches and (len(batches[-1]) + 1) * lengths[index] <= batch_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


def parts(step: Sequence[int], lengths: Sequence[int], together: int, room: int) -> list[list[int]]:
    """A step cut so that each part, padding included, has room; 0: there is room for all of it.

    So many indexes side by side are never parted; where they alone are too long, they are alone.
    """
    if not room:
        return [list(step)]
    made: list[list[int]] = []
    for at in range(0, len(step), together):
        unit = list(step[at : at + together])
        if made and padded(made[-1] + unit, lengths) <= room:
            made[-1] += unit
        else:
            made.append(unit)
    return made


def padded(part: Sequence[int], lengths: Sequence[int]) -> int:
    """Tokens of a part as a rectangle: rows times the longest."""
    return len(part) * max(lengths[index] for index in part)


def tokens(steps: Sequence[Sequence[int]], lengths: Sequence[int]) -> int:
    """Tokens trained on in all steps, padding left out."""
    return sum(lengths[index] for step in steps for index in step)
