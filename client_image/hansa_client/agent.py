"""The agent of one assignment: its base model and start adapter, each loaded on first use."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, partial
from pathlib import Path

from hansa.adapter import lora as adapter
from hansa.adapter.lora import Shapes, Tensors
from hansa.api import bucket_documents, bucket_keys
from hansa.api.assignment import Assignment
from hansa.core.errors import Corrupt, NotFound, PermanentError
from hansa.runtime import program
from hansa.store.base import ObjectStore
from hansa_client.learners import TrainingSet
from hansa_client.models import base_model as model
from hansa_client.models.base_model import Base
from hansa_client.rollout import episodes, mixed_silo, tasks
from hansa_worlds import World

PROXY = "proxy"
"""The world in which the user's own agent plays."""


class Agent:
    """Plays and learns; nothing is loaded before it is needed."""

    def __init__(
        self, assignment: Assignment, store: ObjectStore, twin: "Agent | None" = None
    ) -> None:
        """A twin is an agent with other adapters, whose loaded base model this one shares."""
        self._assignment = assignment
        self._store = store
        self._folder: Path
        if twin:
            self._folder, self.base_model, self.base = twin._folder, twin.base_model, twin.base
        else:
            source = assignment.model_from or assignment.model.source
            self._folder = model.resolve(source, assignment.storage)

    @cached_property
    def base_model(self) -> str:
        """Digest of the base model's files."""
        return model.compute_digest(self._folder)

    @cached_property
    def base(self) -> Base:
        """The loaded base model."""
        threads = self._assignment.settings.training.cpu_threads
        return model.load(self._assignment.model.source, self._folder, threads)

    @cached_property
    def shapes(self) -> Shapes:
        """Shape of each tensor of the adapter on this base model, without the frozen part."""
        from hansa_client.models import lora

        return lora.shapes(self.base.model, self._assignment.adapter)

    @cached_property
    def start(self) -> Tensors:
        """The part of the global adapter that is trained on from."""
        return adapter.split(self.global_adapter, self._assignment.adapter.rank).trained

    @cached_property
    def frozen(self) -> Tensors:
        """The part of the global adapter that is not trained; most strategies make none."""
        return adapter.split(self.global_adapter, self._assignment.adapter.rank).frozen

    @cached_property
    def global_adapter(self) -> Tensors:
        """The global adapter that the round starts from; round 0 makes it from the seed."""
        return read_start_adapter(self._store, self._assignment, lambda: self.shapes)

    @contextmanager
    def merge_adapter(self, tensors: Tensors | None = None) -> Iterator[Base]:
        """The base with an adapter merged, by default the global one, until the block ends."""
        from hansa_client.models import lora

        with lora.merge_adapter(
            self.base.model, self._assignment.adapter, tensors or self.global_adapter
        ):
            yield self.base

    def use_all_gpus(self, lesson: TrainingSet) -> AbstractContextManager[None]:
        """Within, all GPUs of this machine train, where there are several."""
        from hansa_client.learners import multi_gpu

        return multi_gpu.train_on_all_gpus(self._assignment.model.source, self._folder, lesson)

    def play(
        self,
        jobs: Sequence[episodes.EpisodeJob],
        how: episodes.RolloutConfig,
        phase: str,
        tensors: Tensors | None = None,
        make_world: Callable[[], World] | None = None,
    ) -> episodes.Played:
        """Play with an adapter merged into the base: the start adapter, or the one given.

        `make_world` makes another world than the environment's own.
        """

        def progress(done: int, successes: int) -> None:
            exact = {} if self._assignment.settings.privacy else {"successes": successes}
            program.progress(phase=phase, done=done, total=len(jobs), **exact)

        progress(0, 0)
        with tasks.explain_world_errors(self._assignment), self._open_decoders(tensors) as decoders:
            return episodes.play(
                self.base,
                make_world or (lambda: tasks.make_world(self._assignment)),
                jobs,
                how,
                progress,
                decoders,
            )

    @contextmanager
    def _open_decoders(self, tensors: Tensors | None) -> Iterator[episodes.Decoders | None]:
        """What decodes turns: None for the base with the adapter merged, or the silo's endpoint.

        World `proxy` speaks in messages, and is refused with an endpoint of plain text.
        """
        endpoint = self._assignment.turn_endpoint
        if endpoint is None:
            with self.merge_adapter(tensors):
                yield None
            return
        from hansa_client.endpoint.engine import open_decoder

        if any(part.world == PROXY for part in mixed_silo.split_parts(self._assignment)):
            raise PermanentError(
                f"environments[{self._assignment.environment}].endpoint: got one with world "
                f"{PROXY}, expected none, or exploration.engine torch: its turns are recorded from "
                "the client's own engine"
            )
        whole = tensors or self.global_adapter
        yield partial(open_decoder, self._assignment, endpoint, whole, self._folder)


def read_start_adapter(
    store: ObjectStore, assignment: Assignment, shapes: Callable[[], Shapes]
) -> Tensors:
    """The global adapter that the round starts from; round 0 makes it from the seed."""
    start, prefix = assignment.start, assignment.storage.prefix
    if start.round == 0:
        return adapter.init_adapter(shapes(), assignment.adapter.rank, assignment.seed)
    folder = bucket_keys.global_folder(prefix, start.round)
    if assignment.own_start:
        folder = bucket_keys.update_folder(prefix, assignment.environment, start.round)
    key = folder + bucket_keys.ADAPTER
    try:
        data = store.get(key)
    except NotFound:
        raise Corrupt(f"{key}: got nothing, expected the round's start adapter") from None
    check_digest(key, data, start.sha256)
    return adapter.decode(data)


def check_digest(key: str, data: bytes, expected: str) -> None:
    """Refuse an object that was replaced since it was committed."""
    digest = bucket_documents.sha256(data)
    if digest != expected:
        raise Corrupt(f"{key}: got {digest}, expected {expected}: it was changed since")
