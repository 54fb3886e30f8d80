"""Documents of a chat completion, as OpenAI's clients read them."""

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hansa_client.models import tool_format
from hansa_client.serving.chat_request import ChatRequest

Document = dict[str, Any]


@dataclass(frozen=True)
class AnswerMessage:
    """A parsed answer: its text and its calls of tools."""

    content: str
    """Its text, without calls of tools."""
    calls: Sequence[Document] = ()
    """Tools that it calls."""

    @classmethod
    def parse(cls, request: ChatRequest, text: str) -> "AnswerMessage":
        """An answer's text read: only where tools were offered can it call one."""
        if not request.tools:
            return cls(text)
        before = sum(len(message.get("tool_calls", ())) for message in request.messages)
        return cls(*tool_format.parse(text, before))

    def to_message(self) -> Document:
        """As the whole of an answer has it."""
        content = self.content if self.content or not self.calls else None
        message: Document = {"role": "assistant", "content": content, "refusal": None}
        return {**message, "tool_calls": list(self.calls)} if self.calls else message

    def to_delta(self) -> Document:
        """As the one piece of a stream has it."""
        if not self.calls:
            return {"content": self.content}
        calls = [{"index": index, **call} for index, call in enumerate(self.calls)]
        return {"content": self.content or None, "tool_calls": calls}

    def find_finish_reason(self, *, is_stopped: bool) -> str:
        """Why it ended."""
        if not is_stopped:
            return "length"
        return "tool_calls" if self.calls else "stop"


def make_header(model: str) -> Document:
    """The fields that all documents of one completion share."""
    return {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": model}


def make_choice(
    index: int, message: Document, reason: str, logprobs: Document | None = None
) -> Document:
    """One whole answer."""
    return {"index": index, "message": message, "logprobs": logprobs, "finish_reason": reason}


def make_completion(about: Document, choices: Sequence[Document], usage: Document) -> Document:
    """All answers at once."""
    return {**about, "object": "chat.completion", "choices": list(choices), "usage": usage}


def make_chunk(
    about: Document,
    index: int,
    delta: Document,
    logprobs: Document | None = None,
    reason: str | None = None,
) -> Document:
    """A piece of an answer."""
    choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
    return {**about, "object": "chat.completion.chunk", "choices": [choice]}


def make_usage(prompt: int, written: int) -> Document:
    """Tokens read and written."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": written,
        "total_tokens": prompt + written,
    }
