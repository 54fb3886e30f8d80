"""A harness of many manners, by the standard library alone: its first argument says which."""

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    },
}
OPENING = "The goal is at position 8, 6. Your current position is at position 5, 4."
NEXT = "Your current position is at position 5, 5."


def ask(messages: list[dict[str, Any]], key: str = "", **fields: Any) -> dict[str, Any]:
    """The model's message."""
    body = json.dumps({"model": "any", "messages": messages, **fields}).encode()
    return send(body, key)["choices"][0]["message"]


def send(body: bytes, key: str = "") -> dict[str, Any]:
    document: dict[str, Any] = json.loads(post(body, key))
    return document


class RefusedError(Exception):
    """HTTP's status is its argument."""


def post(body: bytes, key: str = "") -> bytes:
    """What a request is answered."""
    url = urlsplit(os.environ["OPENAI_BASE_URL"])
    headers = {
        "Content-Type": "application/json",
        "Authorization": f"Bearer {key or os.environ['OPENAI_API_KEY']}",
    }
    connection = http.client.HTTPConnection(url.netloc, timeout=60)
    connection.request("POST", f"{url.path}/chat/completions", body, headers)
    answer = connection.getresponse()
    if answer.status != 200:
        raise RefusedError(answer.status)
    return answer.read()


def say(success: Any = True, **more: Any) -> None:
    """The result."""
    Path(os.environ["HANSA_RESULT"]).write_text(json.dumps({"success": success, **more}))


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def number() -> int:
    return int(json.loads(os.environ["HANSA_TASK"])["number"])


def talk() -> None:
    """Three turns of one chat; even tasks succeed."""
    messages: list[dict[str, Any]] = [user(OPENING)]
    for _ in range(3):
        messages += [ask(messages), user(NEXT)]
    say(number() % 2 == 0, score=0.5)


def rewrite() -> None:
    """Three turns, of which the last two are in a chat with another history."""
    messages: list[dict[str, Any]] = [user(OPENING)]
    ask(messages)
    messages = [user(NEXT)]
    messages += [ask(messages), user(NEXT)]
    ask(messages)
    say()


def mixed() -> None:
    """Some change their history, and some do not."""
    rewrite() if number() % 2 else talk()


def tools() -> None:
    """One call of a tool, whose result the model reads."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        user("Add 2 and 3"),
    ]
    answer = ask(messages, tools=[ADD], tool_choice="required")
    calls = answer.get("tool_calls") or []
    if not calls:
        say(False)
        return
    messages.append(answer)
    for call in calls:
        given = json.loads(call["function"]["arguments"])
        total = str(given["a"] + given["b"])
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": total})
    say("5" in (ask(messages, tools=[ADD])["content"] or ""))


def crash() -> None:
    ask([user(OPENING)])
    sys.exit(3)


def silent() -> None:
    ask([user(OPENING)])


def nonsense() -> None:
    ask([user(OPENING)])
    Path(os.environ["HANSA_RESULT"]).write_text("I did it!")


def claim() -> None:
    say()


def hang() -> None:
    ask([user(OPENING)])
    time.sleep(600)


def leave() -> None:
    """Ends, while a process in a session of its own continues; its number is in a file."""
    ask([user(OPENING)])
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    Path(sys.argv[2]).write_text(str(child.pid))
    say()


def stay() -> None:
    """Never ends, beside a process in a session of its own."""
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    Path(sys.argv[2]).write_text(f"{os.getpid()} {child.pid} {os.environ['HOME']}")
    with suppress(Exception):  # nor when nobody answers
        ask([user(OPENING)])
    time.sleep(600)


def garbage() -> None:
    """Asks in many wrong ways, then in the right one; succeeds if each was refused."""
    answers = []
    bodies = [b"{", b"[]", b'{"model": "a"}', b"\xff" * 100, json.dumps({"n": 2}).encode()]
    right = {"model": "a", "messages": [user(OPENING)]}
    more: list[dict[str, Any]] = [{"n": 2}, {"logprobs": True}, {"tools": [{}]}, {"strange": 1}]
    for body in [*bodies, *(json.dumps({**right, **each}).encode() for each in more)]:
        answers.append(refusal(lambda body=body: send(body)))
    answers.append(refusal(lambda: ask([user(OPENING)], key="another")))
    ask([user(OPENING)])
    say(answers == [400] * 9 + [401])


def refusal(do: Callable[[], object]) -> int:
    try:
        do()
    except RefusedError as error:
        return int(error.args[0])
    return 0


def environ() -> None:
    """Tells the model its variables, which a test reads in the episode."""
    names = sorted(os.environ)
    ask([user(" ".join(names) + f" seed {os.environ['HANSA_SEED']} {os.environ['HANSA_TASK']}")])
    say()


def stream() -> None:
    """One turn as a stream of events."""
    body = json.dumps({"model": "a", "messages": [user(OPENING)], "stream": True}).encode()
    lines = [line[6:] for line in post(body).splitlines() if line.startswith(b"data: ")]
    assert lines.pop() == b"[DONE]"
    deltas = [json.loads(line)["choices"][0]["delta"].get("content") or "" for line in lines]
    say("".join(deltas) == "move left")


def stopped() -> None:
    """One turn that ends at a text, and has few tokens."""
    said = ask([user(OPENING)], stop=["left"])["content"]
    say("left" not in said)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
