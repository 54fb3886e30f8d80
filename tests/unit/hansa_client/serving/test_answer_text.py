"""Pieces of an answer: together they are its text, up to a stop text, and none is taken back."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from hansa_client.serving.answer_text import AnswerText
from hansa_client.serving.batch_decoder import Written

WORD = "añ字🙂 b\n"


class Bytes:
    """A tokenizer whose tokens are single bytes, so that characters come in halves."""

    stops = (0,)

    def decode_all(self, rows: Sequence[Sequence[int]]) -> list[str]:
        return [bytes(row).decode(errors="replace") for row in rows]


def pieces(tokens: Sequence[int], stop: tuple[str, ...], sizes: Sequence[int]) -> AnswerText:
    """The tokens in portions; each piece that comes out must stay."""
    answer = AnswerText(Bytes(), stop)  # type: ignore[arg-type]
    left = [Written(token) for token in tokens]
    given_out = ""
    for size in [*sizes, len(left)]:
        some, left = left[:size], left[size:]
        for piece in answer.add(some, is_last=not left):
            given_out += piece.text
        assert answer.text == given_out
        if not left:
            break
    return answer


@settings(max_examples=300, deadline=None)
@given(
    text=st.text(WORD, max_size=30),
    stop=st.lists(st.text(WORD, min_size=1, max_size=4), max_size=3),
    sizes=st.lists(st.integers(1, 5), max_size=20),
)
def test_the_pieces_are_the_text_before_the_stop_that_is_written_first(
    text: str, stop: list[str], sizes: list[int]
) -> None:
    answer = pieces([*text.encode(), 0], tuple(stop), sizes)
    heads = [text[:end] for end in range(len(text) + 1)]
    first = next((head for head in heads if any(each in head for each in stop)), None)
    places = [first.find(each) for each in stop if each in first] if first else []
    assert answer.text == (text[: min(places)] if places else text)
    assert answer.is_stopped


@settings(max_examples=100, deadline=None)
@given(text=st.text(WORD, min_size=1, max_size=20), cut=st.integers(1, 60))
def test_an_answer_that_is_cut_in_a_character_says_so(text: str, cut: int) -> None:
    data = text.encode()[:cut]
    answer = pieces(list(data), (), [1] * len(data))
    assert answer.text == data.decode(errors="replace")
    assert not answer.is_stopped and answer.count == len(data)
