"""Chat templates of a hostile base model: none runs without end."""

import time

import pytest

from hansa.adapter import chat_templates
from hansa.core.errors import PermanentError
from hansa_client.models.chat_template import Chat
from tests.unit.hansa_client import toolmodel

TURNS = "{% for turn in messages %}{{ turn.role }}: {{ turn.content }}\n{% endfor %}"
LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"


@pytest.mark.attack(
    by="the author of a Federation",
    does="names a base model whose chat template does not end, or raises to a huge power",
    result="refused: a template has 10 seconds for a chat, and no `**`",
)
@pytest.mark.parametrize(
    "template, sentence",
    [
        pytest.param(LOOPS + TURNS, "takes longer than 0.5 s for 1 turns", id="loops in loops"),
        pytest.param("{{ 9 ** 9 ** 9 ** 9 }}" + TURNS, "has the operator", id="a huge power"),
    ],
)
def test_a_template_that_does_not_end_is_refused(
    monkeypatch: pytest.MonkeyPatch, template: str, sentence: str
) -> None:
    monkeypatch.setattr(chat_templates, "TEMPLATE_SECONDS", 0.5)
    started = time.monotonic()
    with pytest.raises(PermanentError, match=sentence):
        Chat(toolmodel.make_tokenizer(template))
    assert time.monotonic() - started < 20


@pytest.mark.attack(
    by="an honest party",
    does="brings a chat template that ends in time",
    result="works; its deadline ends with it",
)
def test_a_template_that_ends_in_time_leaves_no_deadline_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chat_templates, "TEMPLATE_SECONDS", 0.5)
    Chat(toolmodel.make_tokenizer(toolmodel.IGNORANT))
    until = time.monotonic() + 0.7
    while time.monotonic() < until:  # a deadline that came now would raise here
        pass
