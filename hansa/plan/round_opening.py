"""The settings that a round freezes when it opens: a part of `plan()`, and as pure."""

from typing import Literal

from hansa.api.bucket_documents import StartAdapter
from hansa.api.status import CurrentRound, FederationStatus, RoundEnvironment, RoundSettings
from hansa.plan.builder import Draft
from hansa.plan.policy import apart, deadline, masks, presence

Kind = Literal["round", "evaluate"]


def build_current_round(
    draft: Draft, status: FederationStatus, kind: Kind, round_: int
) -> CurrentRound:
    """A round, or the evaluation after the last one, with the settings of now."""
    spec, there = draft.federation.spec, presence.list_present(draft.federation.spec, status)
    start = StartAdapter()
    if status.adapter:
        start = StartAdapter(round=status.adapter.round, sha256=status.adapter.sha256)
    return CurrentRound(
        kind=kind,
        round=round_,
        opened_at=draft.now,
        start=start,
        settings=RoundSettings.from_spec(spec, status.step_factor),
        participation=deadline.choose_participation(
            spec, status, start.round if kind == "evaluate" else 0
        ),
        guard=spec.guard,
        masking=masks.open_masks(spec, there) if kind == "round" else None,
        environments=[
            RoundEnvironment(
                name=e.name,
                world=e.world,
                options=e.options,
                demonstrations=e.demonstrations,
                demonstrations_from=e.demonstrations_from,
                remote=e.member is not None,
                start=apart.find_own_start(status, spec.aggregation.strategy, e.name),
            )
            for e in there
        ],
    )
