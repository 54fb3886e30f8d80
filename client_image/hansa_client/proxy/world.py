"""World `proxy`: the user's own agent plays, and Hansa's model answers its requests.

    options:
      command: [python, my_agent.py]         # or url: http://127.0.0.1:9000/play
      train: [2000, 10000]

For each episode a harness gets a task and the URL of a recording endpoint. It sends its requests
there, as to any OpenAI-compatible server, and reports at its end whether it succeeded.
"""

from collections.abc import Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, ClassVar, NoReturn
from urllib.parse import urlsplit

from hansa_client.models import tool_format
from hansa_client.proxy.harness import Call, Command, HarnessExit, HarnessRequest, check_allowed
from hansa_worlds import Observation, Options, Prompt, Split, Task, World
from hansa_worlds.errors import WorldDown
from hansa_worlds.seeds import check_disjoint, make_tasks, read_seeds

if TYPE_CHECKING:
    from hansa_client.proxy.endpoint import RecordedRequest, RecordingEndpoint
    from hansa_client.serving.documents import AnswerMessage


class Proxy(World):
    """Runs the user's agent; equal seeds give equal episodes if the agent is deterministic.

    A request that continues the chat of the previous one extends the episode. Any other chat is
    read anew, and is a sequence of its own for the learner.
    """

    name: ClassVar[str] = "proxy"
    waits: ClassVar[bool] = True

    def __init__(self, options: Mapping[str, object]) -> None:
        self.options = dict(options)
        read = Options(options)
        self.max_turns = read.integer("max_turns", self.max_turns, 1, 1000)
        self._seconds = read.number("timeout_seconds", 60.0, 0.1, 3600.0)
        self._command = _read_command(read)
        self._url = _read_url(read)
        self._numbers = read_seeds(read, what="number")
        if bool(self._command) == bool(self._url):
            given = "both" if self._url else "neither"
            read.refuse("command, options.url", given, "one of them")
        read.finish()
        check_disjoint(self._numbers, "number")
        if self._command:
            check_allowed(self._command)
        self._events: SimpleQueue[RecordedRequest | HarnessExit] = SimpleQueue()
        self._endpoint: RecordingEndpoint | None = None
        self._harness: Command | Call | None = None
        self._asked: RecordedRequest | None = None
        self._chat: tuple[Mapping[str, object], ...] = ()
        self._tools: tuple[Mapping[str, object], ...] = ()

    def tasks(self, split: Split) -> Sequence[Task]:
        """The numbers of a split; the harness decides what each stands for."""
        return make_tasks("task-", split, self._numbers[split])

    def start(self, task: Task) -> Observation:
        """Start a harness; the first observation is its first request."""
        from hansa_client.proxy.endpoint import MODEL, RecordingEndpoint

        self.close()
        self._turns, self._done, self._success = 0, False, False
        self._chat = self._tools = ()
        self._events = SimpleQueue()
        tell = self._events.put
        self._endpoint = RecordingEndpoint(tell)
        errand = HarnessRequest(
            base_url=self._endpoint.base_url,
            api_key=self._endpoint.api_key,
            model=MODEL,
            task={"id": task.id, "split": task.split, "number": int(task.payload[0])},
            seed=self.seed,
        )
        if self._command:
            self._harness = Command(self._command, errand, tell)
        else:
            most = (self.max_turns + 1) * self._seconds
            self._harness = Call(self._url, errand, tell, most)
        event = self._wait_for_event()
        if isinstance(event, HarnessExit):
            self._fail(event.fault or "the harness ended before it asked the model anything")
        return self._observe(event)

    def step(self, action: str) -> Observation:
        """Answer the harness with what the model wrote, and wait for its next request."""
        from hansa_client.serving.documents import AnswerMessage

        if self._done or not self._asked:
            return Observation("The episode is over.", 0.0, True)
        self._turns += 1
        exchange, self._asked = self._asked, None
        spoken = AnswerMessage.parse(exchange.request, action)
        self._remember_chat(exchange, spoken)
        exchange.answer(spoken, is_cut=self.is_cut)
        event = self._wait_for_event()
        called = tuple(spoken.calls)
        if isinstance(event, HarnessExit):
            if event.fault:
                self._fail(event.fault)
            self._done, self._success = True, event.success
            return Observation("", event.score, True, called=called)
        if self._turns >= self.max_turns:
            self._done = True
            return Observation("", 0.0, True, called=called)
        return self._observe(event, called)

    def close(self) -> None:
        """End the harness, with all that it has started, and its endpoint."""
        self._asked = None
        endpoint, self._endpoint = self._endpoint, None
        harness, self._harness = self._harness, None
        if endpoint:
            endpoint.close()
        if harness:
            harness.close()

    def _begin(self, task: Task) -> str:
        raise NotImplementedError  # `start` does it

    def _act(self, action: str) -> Observation:
        raise NotImplementedError  # `step` does it

    def _wait_for_event(self) -> "RecordedRequest | HarnessExit":
        """The harness's next request, or its end, within the timeout."""
        try:
            return self._events.get(timeout=self._seconds)
        except Empty:
            self._fail(
                "the harness neither asked the model nor ended within "
                f"{self._seconds:g} s (options.timeout_seconds)"
            )

    def _observe(
        self, exchange: "RecordedRequest", called: tuple[Mapping[str, object], ...] = ()
    ) -> Observation:
        self._asked = exchange
        request = exchange.request
        known = self._count_known(request.messages, request.tools)
        prompt = Prompt(
            messages=request.messages,
            known=known,
            tools=request.tools,
            stop=request.stop,
            max_tokens=request.max_tokens,
        )
        text = "\n".join(
            tool_format.render_message(message) for message in request.messages[known:]
        )
        return Observation(text, prompt=prompt, called=called)

    def _count_known(
        self,
        messages: tuple[Mapping[str, object], ...],
        tools: tuple[Mapping[str, object], ...],
    ) -> int:
        """How many messages the model has read or written already; 0 where the chat is another."""
        known = len(self._chat)
        goes_on = messages[:known] == self._chat and tools == self._tools
        is_fed = all(message["role"] != "assistant" for message in messages[known:])
        return known if goes_on and is_fed else 0

    def _remember_chat(self, exchange: "RecordedRequest", spoken: "AnswerMessage") -> None:
        """Remember the chat as the next request has it, if the harness only appends to it."""
        answer: dict[str, object] = {"role": "assistant", "content": spoken.content}
        if spoken.calls:
            answer["tool_calls"] = list(spoken.calls)
        self._chat = (*exchange.request.messages, answer)
        self._tools = exchange.request.tools

    def _fail(self, why: str) -> NoReturn:
        self._done = True
        raise WorldDown(why)


def _read_command(read: Options) -> tuple[str, ...]:
    value = read.anything("command", [])
    words = value if isinstance(value, list | tuple) else [None]
    if not all(isinstance(word, str) and "\0" not in word for word in words):
        read.refuse("command", repr(value)[:200], "a list of texts: a program and its arguments")
        return ()
    if words and not words[0]:
        read.refuse("command", repr(value)[:200], "a program as its first text")
    return tuple(words)


def _read_url(read: Options) -> str:
    url = read.text("url", "")
    try:
        parts = urlsplit(url)
        fits = not url or (parts.scheme in ("http", "https") and bool(parts.hostname))
        _ = parts.port
    except ValueError:
        fits = False
    if not fits:
        read.refuse("url", repr(url)[:200], "an address such as http://127.0.0.1:9000/play")
        return ""
    return url
