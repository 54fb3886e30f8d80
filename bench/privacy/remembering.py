"""What canary.py and membership.py share: chosen demonstrations, and how likely texts are."""

from collections.abc import Sequence

import private_play
import torch
from federation import Offer

from hansa.adapter import lora
from hansa.adapter.lora import Tensors
from hansa.api.spec import Environment
from hansa_client import trajectory
from hansa_client.agent import Agent
from hansa_client.experience import demonstrations
from hansa_client.experience.shards import DEMONSTRATIONS, Shard, Shards
from hansa_client.round import DemonstrationFiles
from hansa_client.silo import Silo
from hansa_client.training.scoring import PackedScorer, Scorer, can_pack
from hansa_client.trajectory import Episode

_READ_TOKENS = 8192


class Remembering(private_play.PrivatePlay):
    """A federation whose silos are shown other demonstrations than their experts'."""

    owns: dict[str, Tensors]
    """Each silo's last update: what an aggregator sees."""

    def chosen(self, environment: str, episodes: list[Episode]) -> list[Episode]:
        """What a silo is shown, of what its expert shows."""
        raise NotImplementedError

    def look(self) -> None:
        """What the adapters remember, once all rounds are over."""
        raise NotImplementedError

    def run(self) -> None:
        """All rounds, and then a look at what came of them."""
        self.owns = {}
        super().run()
        self.look()
        self._write()

    def experts(self, environment: Environment) -> tuple[list[Episode], Agent]:
        """What a silo's expert shows, the same for every run of a seed, and the silo's agent."""
        silo, agent = self._silo(environment, 1)
        return demonstrations.collect(silo.assignment, None, agent.base.chat).episodes, agent

    def likelihoods(
        self, agent: Agent, tensors: Tensors, sequences: Sequence[trajectory.Sequence]
    ) -> list[float]:
        """Log-likelihood of the agent's tokens in each, by the base with this adapter."""
        with agent.merge_adapter(tensors) as base, torch.inference_mode():
            kind = PackedScorer if can_pack(base.model, base.device) else Scorer
            scored = kind(base.model, base.device).reference_logprobs(sequences, _READ_TOKENS)
        return [float(each.double().sum()) for each in scored]

    def _shards(self, silo: Silo, agent: Agent, files: DemonstrationFiles) -> list[Shard]:
        shards, name = Shards(silo.private, silo.assignment), silo.assignment.environment
        if not shards.has_round(DEMONSTRATIONS):
            shown = demonstrations.collect(silo.assignment, None, agent.base.chat).episodes
            shards.write(DEMONSTRATIONS, self.chosen(name, shown))
        return super()._shards(silo, agent, files)

    def _offer(self, environment: Environment, round_: int) -> Offer:
        frozen = lora.split(self._wholes[environment.name], self._spec.adapter.rank).frozen
        offer = super()._offer(environment, round_)
        if offer.trained:
            self.owns[environment.name] = lora.join(frozen, offer.trained.tensors)
        return offer
