"""The server as OpenAI's own client uses it: answers, streams, choices, and errors in its words."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

from hansa_client.models.base_model import Base
from hansa_client.serving.server import ChatServer
from tests.support.chat_api import MAZE, ask, said

Metric = Callable[[str], float]


def tool(deep: int = 1) -> dict[str, Any]:
    parameters: dict[str, Any] = {"type": "object", "default": None}
    for _ in range(deep):
        parameters = {"type": "object", "properties": parameters}
    return {"type": "function", "function": {"name": "look", "parameters": parameters}}


def text(answer: Any, choice: int = 0) -> str:
    return str(answer.choices[choice].message.content)


def test_a_completion_has_what_the_client_reads(client: openai.OpenAI) -> None:
    answer = ask(client)
    assert answer.object == "chat.completion" and answer.model == "a"
    assert answer.choices[0].message.role == "assistant" and text(answer)
    assert answer.choices[0].finish_reason in ("stop", "length")
    usage = answer.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert 0 < usage.completion_tokens <= 24


def test_the_list_of_models_names_the_adapters_and_the_base(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["a", "b", "base"]
    assert client.models.retrieve("b").id == "b"


def test_a_stream_is_the_same_text_in_pieces(client: openai.OpenAI) -> None:
    pieces = list(ask(client, stream=True, stream_options={"include_usage": True}))
    whole = ask(client)
    texts = [chunk.choices[0].delta.content or "" for chunk in pieces if chunk.choices]
    assert "".join(texts) == text(whole)
    assert sum(bool(piece) for piece in texts) > 1
    assert pieces[0].choices[0].delta.role == "assistant"
    assert pieces[-2].choices[0].finish_reason == whole.choices[0].finish_reason
    assert pieces[-1].choices == [] and pieces[-1].usage == whole.usage


def test_several_choices_are_independent_answers(client: openai.OpenAI) -> None:
    several = ask(client, "base", n=5, temperature=2, seed=7)
    texts = [text(several, place) for place in range(5)]
    assert [choice.index for choice in several.choices] == list(range(5))
    assert len(set(texts)) > 1
    assert text(ask(client, "base", temperature=2, seed=7)) == texts[0]


def test_several_choices_can_be_streamed(client: openai.OpenAI) -> None:
    options: dict[str, Any] = {"n": 3, "temperature": 2, "seed": 7}
    texts = dict.fromkeys(range(3), "")
    for chunk in ask(client, "base", stream=True, **options):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    whole = ask(client, "base", **options)
    assert texts == {place: text(whole, place) for place in range(3)}


def test_a_seed_repeats_an_answer_whoever_shares_its_batch(client: openai.OpenAI) -> None:
    alone = [text(ask(client, "base", temperature=2, seed=seed)) for seed in range(6)]
    with ThreadPoolExecutor(12) as pool:
        mixed = list(
            pool.map(
                lambda n: ask(client, "ab"[n % 2] if n > 5 else "base", temperature=2, seed=n),
                range(12),
            )
        )
    assert [text(answer) for answer in mixed[:6]] == alone
    assert len(set(alone)) > 1


def test_an_answer_ends_before_a_stop_text(client: openai.OpenAI) -> None:
    whole = text(ask(client))
    assert len(whole) > 8
    stop = whole[4:7]
    for streams in (False, True):
        answer = ask(client, stop=["never written", stop], stream=streams)
        if streams:
            chunks = [chunk.choices[0] for chunk in answer]
            written = "".join(choice.delta.content or "" for choice in chunks)
            reason = chunks[-1].finish_reason
        else:
            written, reason = text(answer), answer.choices[0].finish_reason
        assert (written, reason) == (whole.partition(stop)[0], "stop")


def test_a_limit_of_tokens_cuts_an_answer(client: openai.OpenAI) -> None:
    for name in ("max_tokens", "max_completion_tokens"):
        answer = ask(client, **{"max_tokens": openai.omit, name: 1})
        assert answer.usage.completion_tokens == 1
        assert answer.choices[0].finish_reason == "length"


def test_logprobs_belong_to_the_tokens_of_the_text(client: openai.OpenAI) -> None:
    answer = ask(client, logprobs=True, top_logprobs=3)
    content = answer.choices[0].logprobs.content
    assert "".join(token.token for token in content) == text(answer)
    for token in content:
        assert len(token.top_logprobs) == 3
        assert token.logprob == max(top.logprob for top in token.top_logprobs)  # it is greedy
        assert bytes(token.bytes).decode() == token.token
    streamed = ask(client, logprobs=True, top_logprobs=3, stream=True)
    given = [c.choices[0].logprobs.content for c in streamed if c.choices[0].logprobs]
    assert [token for tokens in given for token in tokens] == content
    assert ask(client).choices[0].logprobs is None


def test_a_narrow_top_p_is_greedy(client: openai.OpenAI) -> None:
    narrow = [ask(client, temperature=2, top_p=1e-9, seed=seed) for seed in range(3)]
    assert {text(answer) for answer in narrow} == {text(ask(client))}


def test_adapters_that_are_asked_at_once_answer_as_they_do_alone(client: openai.OpenAI) -> None:
    names = ["a", "b", "base"]
    alone = {(name, place): text(ask(client, name, place)) for name in names for place in range(8)}
    assert len({text(ask(client, name)) for name in names}) == 3
    with ThreadPoolExecutor(len(alone)) as pool:
        together = dict(
            zip(alone, pool.map(lambda key: text(ask(client, *key)), alone), strict=True)
        )
    assert together == alone


def test_answers_share_forward_passes(client: openai.OpenAI, metric: Metric) -> None:
    before = [metric(f"hansa_serve_batch_turns_{kind}") for kind in ("count", "sum")]
    assert ask(client, n=64).usage.completion_tokens == 64 * 24  # greedy, these adapters never end
    after = [metric(f"hansa_serve_batch_turns_{kind}") for kind in ("count", "sum")]
    passes, turns = (now - then for now, then in zip(after, before, strict=True))
    assert turns >= 8 * passes  # there are 16 slots


def test_a_request_that_comes_later_joins_those_under_way(
    client: openai.OpenAI, metric: Metric
) -> None:
    stream = iter(ask(client, stream=True, max_tokens=1900))
    next(stream)
    before = [metric(f"hansa_serve_batch_turns_{kind}") for kind in ("count", "sum")]
    assert text(ask(client, "b", max_tokens=8))
    after = [metric(f"hansa_serve_batch_turns_{kind}") for kind in ("count", "sum")]
    assert next(stream).choices
    passes, turns = (now - then for now, then in zip(after, before, strict=True))
    assert turns > passes


def test_a_system_message_and_a_dialogue_are_what_the_model_reads(
    client: openai.OpenAI, base: Base
) -> None:
    rules, observation = MAZE.format(place=6).split("\n")
    messages = [{"role": "system", "content": rules}, {"role": "user", "content": observation}]
    answer = client.chat.completions.create(
        model="a", messages=messages, temperature=0, max_tokens=24
    )
    assert text(answer) == text(ask(client))  # the builtin model's worlds put rules first
    more = [
        *said(),
        {"role": "assistant", "content": "move right"},
        {"role": "user", "content": [{"type": "text", "text": "You have won."}]},
    ]
    answer = client.chat.completions.create(model="a", messages=more, max_tokens=1)
    first = base.chat.encode_observations([MAZE.format(place=6)], first=True)[0]
    rest = base.chat.encode_observations(["You have won."], first=False)[0]
    whole = [*first, *base.chat.encode_actions(["move right"])[0], *rest]
    assert answer.usage.prompt_tokens == len(whole)


def test_an_unknown_model_is_404_with_those_that_are_there(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as refused:
        ask(client, "round-99")
    assert refused.value.body == {
        "message": "model: got 'round-99', expected one of a, b, base",
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }


def test_a_wrong_key_is_401(server: ChatServer) -> None:
    for key in ("another", "a-key-of-the-testsX", "a-key-of-the-test"):
        with (
            openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0) as client,
            pytest.raises(openai.AuthenticationError, match="expected Bearer"),
        ):
            client.models.list()


def test_tools_are_told_to_the_model_and_what_they_gave_is_read(client: openai.OpenAI) -> None:
    plain = ask(client)
    offered = ask(client, tools=[tool()])
    assert offered.usage.prompt_tokens > plain.usage.prompt_tokens
    assert offered.choices[0].message.tool_calls is None, "this model writes no JSON"
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages: Any = [
        *said(),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "There is a wall below you."},
    ]
    asked: dict[str, Any] = {"model": "a", "messages": messages, "tools": [tool()], "max_tokens": 8}
    answer = client.chat.completions.create(**asked, temperature=0)
    assert answer.usage and answer.usage.prompt_tokens > offered.usage.prompt_tokens
    pieces = client.chat.completions.create(**asked, temperature=0, stream=True)
    said_so = "".join(piece.choices[0].delta.content or "" for piece in pieces)
    assert said_so == answer.choices[0].message.content
    unoffered = client.chat.completions.create(**{**asked, "tool_choice": "none"})
    assert unoffered.usage and unoffered.usage.prompt_tokens < answer.usage.prompt_tokens


@pytest.mark.parametrize(
    "options, sentence",
    [
        pytest.param({"n": 0}, "n: got 0, expected a whole number from 1 to 128", id="n"),
        pytest.param({"temperature": 3}, "temperature: got 3, expected a number from 0 to 2"),
        pytest.param({"top_p": 0}, "top_p: got 0, expected a number above 0 and at most 1"),
        pytest.param({"max_tokens": 99999}, "and max_tokens 99999, expected at most 2048 together"),
        pytest.param({"presence_penalty": 1}, "presence_penalty: got 1, which is not supported"),
        pytest.param(
            {"tools": [{}]}, "tools[0]: got an empty mapping, expected a mapping with type"
        ),
        pytest.param(
            {"tools": [tool(deep=40)]}, "tools[0].function.parameters: got a mapping, expected a"
        ),
        pytest.param(
            {"tool_choice": "required"}, "tool_choice: got 'required', which is not supported"
        ),
        pytest.param(
            {"response_format": {"type": "json_object"}}, "response_format: got a mapping"
        ),
        pytest.param({"extra_body": {"best_of": 2}}, "best_of: unknown field, expected one of"),
        pytest.param({"top_logprobs": 2}, "top_logprobs: got it without logprobs: true"),
        pytest.param({"stop": [""]}, "stop: got an empty text"),
        pytest.param({"messages": []}, "messages: got an empty list, expected a list of 1 to"),
        pytest.param(
            {"messages": [{"role": "tool", "content": "x", "tool_call_id": "a"}]},
            "messages[0].role: got 'tool', expected system or user there",
        ),
        pytest.param(
            {"messages": [*said(), *([{"role": "assistant", "content": "x"}] * 2)]},
            "messages[2].role: got 'assistant', expected user there: they take turns",
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages[0].content[0].type: got 'image_url', expected text",
        ),
    ],
)
def test_what_is_not_supported_is_400_and_one_sentence(
    client: openai.OpenAI, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**{"model": "a", "messages": said(), **options})
    body = refused.value.body
    assert isinstance(body, dict) and sentence in str(body["message"])
    assert body["type"] == "invalid_request_error" and "\n" not in str(body["message"])


def test_neutral_values_of_unsupported_fields_are_taken(client: openai.OpenAI) -> None:
    neutral = {"presence_penalty": 0.0, "frequency_penalty": 0, "logit_bias": {}, "user": "me"}
    assert text(ask(client, **neutral)) == text(ask(client))


def test_health_and_metrics_need_no_key(server: ChatServer) -> None:
    from urllib.request import urlopen

    with urlopen(f"{server.url}/health") as answer:  # noqa: S310
        assert json.load(answer) == {"status": "ok"}
    with urlopen(f"{server.url}/metrics") as answer:  # noqa: S310
        page = answer.read().decode()
    assert "hansa_serve_slots 16.0" in page and "hansa_serve_tokens_total" in page
