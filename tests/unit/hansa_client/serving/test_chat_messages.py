"""What becomes of a request's messages before a template renders them."""

from hansa_client.serving.chat_messages import read_messages


def test_messages_of_a_user_in_a_row_are_one() -> None:
    roles = ("system", "user", "user", "assistant", "user", "user")
    messages = [{"role": role, "content": f"{i}"} for i, role in enumerate(roles)]
    assert [(m["role"], m["content"]) for m in read_messages("messages", messages)["messages"]] == [
        ("system", "0"),
        ("user", "1\n2"),
        ("assistant", "3"),
        ("user", "4\n5"),
    ]
