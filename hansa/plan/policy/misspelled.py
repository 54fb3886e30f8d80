"""Names that are almost a builtin's: taken for a plug-in's, they would be missed in a Job alone.

The operator cannot tell what the images bring. A strategy that the server's image lacks is found
out at the first merge, when every silo has played and trained.
"""

from difflib import get_close_matches

from hansa.api import aggregation, training
from hansa.api.spec import FederationSpec

_LIKENESS = 0.8
"""Of two names, by difflib; `trimed-mean` and `trimmed-mean` have 0.96."""


def warnings(spec: FederationSpec) -> list[str]:
    """A sentence for each name that is none of the builtin ones and looks like one."""
    named = {
        "spec.aggregation.strategy": (spec.aggregation.strategy, aggregation.BUILTIN),
        "spec.training.learner": (spec.training.learner, training.BUILTIN),
    }
    return [
        f"{path}: {name} is no builtin name, so an image must bring it; did you mean {close[0]}?"
        for path, (name, builtin) in named.items()
        if name not in builtin and (close := get_close_matches(name, builtin, 1, _LIKENESS))
    ]
