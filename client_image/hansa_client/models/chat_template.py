"""Chat: encoding turns of text by a model's chat template, and decoding them.

The template is rendered once, with marker texts, and what it puts around them is put around every
turn. So a turn's tokens never depend on the turns before it (some templates rewrite earlier ones),
and an episode grows only at its end, as the KV cache of a rollout needs it. Chats with tools are
rendered as they come, if the template supports tools.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from hansa.adapter import chat_templates
from hansa.adapter.chat_templates import guard_template
from hansa.core.errors import PermanentError
from hansa_client.models import tool_format
from hansa_client.models.tool_format import Message
from hansa_worlds import Prompt

_FIRST, _ACTION, _NEXT = "HansaFirstText", "HansaActionText", "HansaNextText"
_SYSTEM, _ANSWER, _TOOL = "HansaSystemText", "HansaAnswerText", "hansa_marker_tool"
_PROBE = {
    "type": "function",
    "function": {
        "name": _TOOL,
        "description": "A tool.",
        "parameters": {"type": "object", "properties": {}},
    },
}
_PLAIN = ("", "\n> ", "\n", "\n> ")
"""Text around the first and each next observation for models without a template."""


class Chat:
    """Encodes and decodes the turns of a chat for one model."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        added = {t.content for t in tokenizer.added_tokens_decoder.values() if t.special}
        specials: set[str] = added | set(tokenizer.all_special_tokens)
        self._specials = sorted(specials, key=lambda text: (-len(text), text))
        """Texts that the tokenizer reads as one special token, longest first."""
        self._frame = _PLAIN
        end = tokenizer.eos_token
        if tokenizer.chat_template:
            *frame, rest = _find_frame(tokenizer)
            written, between = _split_end(rest[0], self._specials)
            self._frame = (frame[0], frame[1], between, rest[1])
            end = written or end
        if not end:
            raise PermanentError(
                "spec.model.source: its tokenizer has no eos_token, expected one that ends a turn"
            )
        self.end: int = tokenizer.convert_tokens_to_ids(end)
        """The token that ends the agent's turn."""
        self.stops: list[int] = sorted({self.end, tokenizer.eos_token_id or self.end})
        """Tokens that stop generation."""

    def encode_observations(self, texts: list[str], *, first: bool) -> list[list[int]]:
        """Tokens of the world's turns, up to where the agent writes."""
        before, after = self._frame[:2] if first else self._frame[2:]
        return self._encode([f"{before}{self.clean(text)}{after}" for text in texts])

    def encode_actions(self, texts: list[str]) -> list[list[int]]:
        """Tokens of the agent's turns, with the end token."""
        return [[*tokens, self.end] for tokens in self._encode([self.clean(t) for t in texts])]

    def encode_dialogue(self, texts: Sequence[str], system: str = "") -> list[int]:
        """Tokens of observations and actions in turn, up to where the agent writes next.

        A system text goes where the model's template puts it. Without support for one, it comes
        before the first observation, as a world's rules do.
        """
        first, *rest = texts
        frame = self._find_system_frame(self.clean(system)) if system else None
        if frame:
            tokens = self._encode([f"{frame[0]}{self.clean(first)}{frame[1]}"])[0]
        else:
            opening = f"{system}\n{first}" if system else first
            tokens = self.encode_observations([opening], first=True)[0]
        for action, observation in zip(rest[::2], rest[1::2], strict=True):
            tokens = tokens + self.encode_actions([action])[0]
            tokens = tokens + self.encode_observations([observation], first=False)[0]
        return tokens

    def encode_conversation(self, prompt: Prompt) -> list[int]:
        """Tokens of a chat with tools, up to where the agent writes next.

        Of a continued chat, only what follows the agent's last turn. Tools are rendered by the
        model's template, or as text where it does not support them.
        """
        messages, tools, known = prompt.messages, prompt.tools, prompt.known
        if tools and self._knows_tools and (text := self._render_by_template(prompt)):
            return self._encode([text])[0]
        if known:
            _, texts = tool_format.render_plain(messages[known:], ())
            return self.encode_observations(["\n".join(texts)], first=False)[0]
        system, texts = tool_format.render_plain(messages, tools)
        return self.encode_dialogue(texts, system)

    def _render_by_template(self, prompt: Prompt) -> str | None:
        """The chat, or of a continued one the text behind the agent's last turn."""
        messages, known = prompt.messages, prompt.known
        if not known:
            return self._render_tools(messages, prompt.tools)
        last = {"role": "assistant", "content": _ACTION}
        text = self._render_tools([*messages[: known - 1], last, *messages[known:]], prompt.tools)
        if text is None or text.count(_ACTION) != 1:
            return None
        return _split_end(text.split(_ACTION)[1], self._specials)[1]

    @cached_property
    def _knows_tools(self) -> bool:
        """Whether the template renders tools, and the result of a call."""
        call = {"id": "call_0", "type": "function", "function": {"name": _TOOL, "arguments": "{}"}}
        messages: list[Message] = [
            {"role": "user", "content": "A question."},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_0", "content": _ANSWER},
        ]
        text = self._render_tools(messages, [_PROBE])
        return text is not None and text.count(_TOOL) == 2 and text.count(_ANSWER) == 1

    def _render_tools(self, messages: Sequence[Message], tools: Sequence[Message]) -> str | None:
        """The chat up to where the agent writes next; None where the template fails."""
        cleaned = [self._clean_value(message) for message in messages]
        with suppress(PermanentError):
            return _apply_template(
                self._tokenizer, cleaned, tools=[self._clean_value(tool) for tool in tools]
            )
        return None

    def _clean_value(self, value: Any) -> Any:
        """The same with all texts cleaned, and arguments of calls as data."""
        if isinstance(value, str):
            return self.clean(value)
        if isinstance(value, dict):
            if isinstance(value.get("arguments"), str) and "name" in value:
                value = {**value, "arguments": tool_format.parse_arguments(value)}
            return {self.clean(name): self._clean_value(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._clean_value(each) for each in value]
        return value

    def _find_system_frame(self, system: str) -> tuple[str, str] | None:
        """Text around the first observation with a system text; None: it is not supported."""
        if not self._tokenizer.chat_template:
            return None
        turns = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": _FIRST}]
        try:
            text = _apply_template(self._tokenizer, turns)
        except PermanentError:
            return None
        if text.count(_SYSTEM) != 1 or text.count(_FIRST) != 1:
            return None
        before, after = text.split(_FIRST)
        return before.replace(_SYSTEM, system), after

    def decode(self, action: Sequence[int]) -> str:
        """Text that the agent wrote so far."""
        return self.decode_all([list(action)])[0]

    def decode_all(self, actions: list[list[int]]) -> list[str]:
        """Texts that the agent wrote, without special tokens; spaces are kept."""
        decoded: list[str] = self._tokenizer.batch_decode(actions, skip_special_tokens=True)
        return decoded

    def _encode(self, texts: list[str]) -> list[list[int]]:
        if not texts:
            return []
        encoded: list[list[int]] = self._tokenizer(texts, add_special_tokens=False)["input_ids"]
        return encoded

    def clean(self, text: str) -> str:
        """Text without special tokens, which could forge the end of a turn."""
        for special in self._specials:
            text = text.replace(special, "")
        return text


def _find_frame(tokenizer: Any) -> tuple[str, str, tuple[str, str]]:
    """Text that the template puts around the first observation, and around each next one."""
    first = _apply_template(tokenizer, [{"role": "user", "content": _FIRST}])
    dialogue = [
        {"role": "user", "content": _FIRST},
        {"role": "assistant", "content": _ACTION},
        {"role": "user", "content": _NEXT},
    ]
    whole = _apply_template(tokenizer, dialogue)
    if first.count(_FIRST) != 1 or whole.count(_ACTION) != 1 or whole.count(_NEXT) != 1:
        raise PermanentError(
            "spec.model.source: its chat template does not show each turn once, "
            "expected user and assistant turns in order"
        )
    before_first, after_first = first.split(_FIRST)
    before_next, after_next = whole.split(_ACTION)[1].split(_NEXT)
    return before_first, after_first, (before_next, after_next)


def _split_end(text: str, specials: list[str]) -> tuple[str, str]:
    """The special token at the end of the agent's turn, which the agent writes, and the rest."""
    stripped = text.lstrip()
    for special in specials:
        if special and stripped.startswith(special):
            return special, stripped[len(special) :]
    return "", text


def _apply_template(tokenizer: Any, messages: list[dict[str, str]], **more: Any) -> str:
    try:
        with guard_template(tokenizer.chat_template):
            text: str = tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, **more
            )
    except TimeoutError:
        raise PermanentError(
            f"spec.model.source: its chat template takes longer than "
            f"{chat_templates.TEMPLATE_SECONDS:g} s for {len(messages)} turns"
        ) from None
    except Exception as error:  # a template may raise anything
        raise PermanentError(
            f"spec.model.source: its chat template fails on user and assistant turns ({error})"
        ) from None
    return text
