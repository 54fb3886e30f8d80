"""What a manifest asks of this machine's worlds and cannot get: tasks, and words of the model."""

import time
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from hansa.adapter.model_card import find_local_folder
from hansa.api.spec import Environment, FederationSpec
from hansa.api.worlds import BUILTIN, WORLDS
from hansa.core.text import count, shorten

_TASKS = 8
"""Training tasks that the expert plays for its words."""
_SECONDS = 5.0
"""Longest time in which it begins another of them."""
_LONGEST_WORDS = 120


def find_world_notes(spec: FederationSpec) -> Iterator[str]:
    """A sentence for each environment whose world has too few tasks, or words of its own."""
    points = WORLDS.list_points()
    for index, environment in enumerate(spec.environments):
        if environment.member or environment.world not in points:
            continue
        # A package may raise anything, and the client explains it best.
        with suppress(Exception):
            kind: Any = points[environment.world].load()
            if kind.waits:
                continue  # its tasks are at a server
            with closing(kind(environment.options)) as world:
                where = f"spec.environments[{index}]"
                yield from _note_tasks(spec, environment, world, where)
                if environment.world not in BUILTIN:
                    yield from _note_words(spec, environment, world, where)


def _note_tasks(
    spec: FederationSpec, environment: Environment, world: Any, where: str
) -> Iterator[str]:
    own, shared = environment.demonstrations, spec.experience
    file = environment.demonstrations_from or shared.demonstrations_from
    shown = 0 if file else shared.demonstrations if own is None else own
    validated = spec.evaluation.count_validation_tasks(guarded=spec.guarded)
    asked = (
        ("demonstrations", "train", shown),
        ("evaluation tasks", "test", spec.evaluation.tasks),
        ("validation tasks", "validation", validated),
    )
    cut = [
        f"{has} of {wanted} {what}"
        for what, split, wanted in asked
        if wanted and (has := len(world.tasks(split))) < wanted
    ]
    if cut:
        yield f"{where}: world {environment.world} has fewer tasks than asked for: {', '.join(cut)}"


def _note_words(
    spec: FederationSpec, environment: Environment, world: Any, where: str
) -> Iterator[str]:
    """Words of the expert that the model has no token for, and so can never write."""
    folder = find_local_folder(spec.model.source)
    if folder is None or not (folder / "tokenizer.json").is_file():
        return
    played = list(_play_expert(world, thoughts=spec.experience.thoughts))
    unknown = dict.fromkeys(_find_unknown(folder, [move for moves in played for move in moves]))
    if unknown:
        yield (
            f"{where}: {spec.model.source} has no token for {count(len(unknown), 'word')} in the "
            f"expert's actions of world {environment.world} ({count(len(played), 'task')} tried), "
            f"and can never write them: {shorten(' '.join(unknown), _LONGEST_WORDS)}; let its "
            "actions use words of the builtin worlds, or set spec.model.source to a model that "
            "knows them"
        )


def _play_expert(world: Any, *, thoughts: bool) -> Iterator[list[str]]:
    """What the expert writes in some training tasks."""
    end = time.monotonic() + _SECONDS
    for task in islice(world.tasks("train"), _TASKS):
        moves: list[str] = []
        observation = world.start(task)
        while not observation.done:
            move = world.expert()
            moves.append(move.text if thoughts else move.action)
            observation = world.step(moves[-1])
        yield moves
        if time.monotonic() > end:
            return


def _find_unknown(folder: Path, texts: list[str]) -> Iterator[str]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    missing = getattr(tokenizer.model, "unk_token", None)
    for text, encoded in zip(texts, tokenizer.encode_batch(texts), strict=True):
        for token, (start, end) in zip(encoded.tokens, encoded.offsets, strict=True):
            if token == missing:
                yield text[start:end].strip() or repr(text[start:end])
