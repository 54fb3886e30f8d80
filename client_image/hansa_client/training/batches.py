"""Batches: which trajectories share an optimizer step, decided before training, without torch."""

from collections.abc import Sequence

from hansa_client import seeds


def plan_steps(
    lengths: Sequence[int], *, batch_tokens: int, epochs: int, max_steps: int, seed: int
) -> list[list[int]]:
    """The steps of a round, each a list of indexes; padding counts as tokens.

    Similar lengths are batched together to reduce padding. The batches of an epoch are shuffled, so
    that a limit on the steps leaves out a random part and not the longest trajectories.
    """
    random = seeds.make_generator(seed)
    steps: list[list[int]] = []
    for _ in range(epochs):
        batches = fill_batches(random.permutation(len(lengths)).tolist(), lengths, batch_tokens)
        steps += [batches[index] for index in random.permutation(len(batches)).tolist()]
        if max_steps and len(steps) >= max_steps:
            return steps[:max_steps]
    return steps


def fill_batches(
    indexes: Sequence[int], lengths: Sequence[int], batch_tokens: int
) -> list[list[int]]:
    """Split by length so that rows times the longest row fit; one that is too long is alone."""
    batches: list[list[int]] = []
    for index in sorted(indexes, key=lambda i: lengths[i]):  # this row is the batch's longest
        if batches and (len(batches[-1]) + 1) * lengths[index] <= batch_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


def split_step(
    step: Sequence[int], lengths: Sequence[int], together: int, room: int
) -> list[list[int]]:
    """Split a step into parts of at most `room` tokens with padding; 0: no limit.

    Groups of `together` indexes are never split, even if they are too long.
    """
    if not room:
        return [list(step)]
    made: list[list[int]] = []
    for at in range(0, len(step), together):
        unit = list(step[at : at + together])
        if made and count_padded_tokens(made[-1] + unit, lengths) <= room:
            made[-1] += unit
        else:
            made.append(unit)
    return made


def count_padded_tokens(part: Sequence[int], lengths: Sequence[int]) -> int:
    """Tokens of a part with padding: rows times the longest."""
    return len(part) * max(lengths[index] for index in part)
