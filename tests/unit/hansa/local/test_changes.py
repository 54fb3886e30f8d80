"""What a manifest changes in a run that has begun: which fields, from what to what."""

from typing import Any

import pytest

from hansa.local.changes import settings_changed
from tests.support.builders import make_federation

MAZE = {"name": "maze", "world": "maze"}


@pytest.mark.parametrize(
    "old, new, sentences",
    [
        pytest.param({}, {}, [], id="nothing"),
        pytest.param(
            {"training": {"epochs": 1}},
            {"training": {"epochs": 2}},
            ["spec.training.epochs: 1 -> 2"],
            id="a number",
        ),
        pytest.param(
            {"exploration": {"stop": []}, "evaluation": {"tasks": 8}},
            {"exploration": {"stop": ["\n"]}, "evaluation": {"tasks": 9}},
            ["spec.evaluation.tasks: 8 -> 9", "spec.exploration.stop: an empty list -> a list"],
            id="several, each by its name",
        ),
        pytest.param(
            {},
            {"guard": {"maxDrop": 0.2}},
            [
                "spec.guard.action: nothing -> 'rollback'",
                "spec.guard.maxDrop: nothing -> 0.2",
                "spec.guard.scope: nothing -> 'mean'",
            ],
            id="a guard that was not there",
        ),
        pytest.param(
            {"environments": [{**MAZE, "options": {"size": 4}}]},
            {"environments": [{**MAZE, "options": {"size": 5}}]},
            ["spec.environments.maze.options.size: 4 -> 5"],
            id="an option of a world",
        ),
        pytest.param(
            {"environments": [MAZE]},
            {"environments": [{**MAZE, "demonstrations": 3}]},
            ["spec.environments.maze.demonstrations: nothing -> 3"],
            id="a silo's own number of demonstrations",
        ),
        pytest.param(
            {"environments": [{**MAZE, "options": {"password": "abc"}}]},
            {"environments": [{**MAZE, "options": {"password": "hunter2"}}]},
            ["spec.environments.maze.options.password: changed"],
            id="a secret is not repeated",
        ),
        pytest.param(
            {"training": {"batchTokens": 4096}, "exploration": {"maxNewTokens": 32}},
            {"training": {"batchTokens": 8192}, "exploration": {"maxNewTokens": 64}},
            [
                "spec.exploration.maxNewTokens: 32 -> 64",
                "spec.training.batchTokens: 4096 -> 8192",
            ],
            id="numbers of tokens are no secrets",
        ),
        pytest.param(
            {"environments": [{**MAZE, "options": {"tokens": "abc", "token": 1}}]},
            {"environments": [{**MAZE, "options": {"tokens": "hunter2", "token": 2}}]},
            [
                "spec.environments.maze.options.token: changed",
                "spec.environments.maze.options.tokens: changed",
            ],
            id="tokens in words may be secrets, and so may one token",
        ),
        pytest.param(
            {"environments": [MAZE]},
            {"environments": [MAZE, {"name": "shop", "world": "webshop"}]},
            ["spec.environments.shop: joins"],
            id="a silo that joins",
        ),
        pytest.param(
            {"environments": [{"name": "shop", "world": "webshop"}, MAZE]},
            {"environments": [MAZE]},
            ["spec.environments.shop: leaves"],
            id="a silo that leaves",
        ),
        pytest.param(
            {"environments": [MAZE]},
            {
                "suspend": True,
                "podTemplate": {"spec": {}},
                "environments": [{**MAZE, "queueName": "gpus"}],
            },
            [],
            id="what no round takes over",
        ),
    ],
)
def test_changes_are_named_field_by_field(
    old: dict[str, Any], new: dict[str, Any], sentences: list[str]
) -> None:
    changes = settings_changed(make_federation(**old).spec, make_federation(**new).spec)
    assert [str(change) for change in changes] == sentences
