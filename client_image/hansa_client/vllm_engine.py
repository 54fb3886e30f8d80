"""Decoding by vLLM, where it is installed: turns in lock-step, prefixes cached by vLLM itself.

Written from vLLM's documentation and never run by its authors, who had no machine with it: take it
as a start, compare its episodes with torch's, and expect other tokens, since vLLM draws by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from hansa.errors import PermanentError

if TYPE_CHECKING:
    from hansa_client.decode import Ask, Endings
    from hansa_client.model import Base
    from hansa_client.seat import Engine, Play

_SHARE = 0.7
"""Of the GPU's memory; the base model itself stays loaded beside it."""


def check(engine: Engine) -> None:
    """Refuse an engine that is not here, before anything is loaded."""
    if engine == "vllm" and not find_spec("vllm"):
        raise PermanentError(
            "spec.exploration.engine: got vllm, which is not installed, expected auto or torch",
            hint="install vllm into the environment's image",
        )


@contextmanager
def serving(base: Base, rows: int, how: Play, endings: Endings) -> Iterator[Served]:
    """vLLM with the model as it is now, the round's adapter merged into it."""
    check("vllm")
    if not hasattr(base.model, "save_pretrained"):
        raise PermanentError(
            "spec.exploration.engine: got vllm, expected auto or torch with a builtin model"
        )
    from vllm import LLM  # type: ignore[import-not-found]

    with TemporaryDirectory(prefix="hansa-vllm-") as folder:
        base.model.save_pretrained(folder)
        engine = LLM(
            model=folder,
            dtype="bfloat16",
            skip_tokenizer_init=True,
            enable_prefix_caching=True,
            max_model_len=how.max_length,
            max_num_seqs=rows,
            gpu_memory_utilization=_SHARE,
        )
        yield Served(engine, rows, how.temperature, endings)


class Served:
    """Rows whose whole text is handed to vLLM each turn; it knows the part it has seen."""

    name = "vllm"
    joins = True

    def __init__(self, engine: Any, rows: int, temperature: float, endings: Endings) -> None:
        self.rows = rows
        self._engine = engine
        self._temperature = temperature
        self._endings = endings
        self._texts: dict[int, list[int]] = {}
        self._asks: list[Ask] = []

    def read(self, asks: Sequence[Ask]) -> None:
        """Note the rows' next turns; a row's own last token comes with them."""
        for ask in asks:
            before = [] if ask.is_first else self._texts[ask.row]
            self._texts[ask.row] = before + ask.tokens
        self._asks = list(asks)

    def write(self, patience: int) -> list[tuple[int, list[int]]]:
        """All turns, from their beginnings to their ends."""
        from vllm import SamplingParams

        from hansa_client.decode import Writing

        how = [
            SamplingParams(
                temperature=self._temperature,
                max_tokens=ask.budget,
                seed=ask.seed % 2**31,
                stop_token_ids=list(self._endings.tokens),
                detokenize=False,
            )
            for ask in self._asks
        ]
        texts = [{"prompt_token_ids": self._texts[ask.row]} for ask in self._asks]
        written = self._engine.generate(texts, how, use_tqdm=False)
        over = []
        for ask, one in zip(self._asks, written, strict=True):
            turn = Writing(ask)
            turn.add(list(one.outputs[0].token_ids), self._endings)
            self._texts[ask.row] += turn.tokens[:-1]
            over.append((ask.row, turn.tokens))
        return over
