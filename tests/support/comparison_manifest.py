"""The federation that comparisons are made of."""

from typing import Any

FEDERATION: dict[str, Any] = {
    "apiVersion": "hansa.dev/v1alpha1",
    "kind": "Federation",
    "metadata": {"name": "two"},
    "spec": {
        "rounds": 3,
        "exploration": {"tasksPerRound": 5},
        "aggregation": {"strategy": "svd", "serverStep": 3.0},
        "participation": {"minimumUpdates": 2},
        "storage": {"s3": {"bucket": "bucket"}},
        "environments": [
            {"name": "maze", "world": "maze", "options": {"max_turns": 4}},
            {"name": "words", "world": "wordle"},
        ],
    },
}
