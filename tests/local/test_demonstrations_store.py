"""A file of demonstrations in a real store, in a bucket beside the federation's."""

import pytest

from hansa.api.bucket_documents import sha256
from hansa.core.errors import PermanentError
from hansa.local.objectstore import RUNNER, LocalStore
from hansa.store.s3 import S3Store
from hansa_client.experience import agentgym_format, demonstrations
from hansa_client.experience.agentgym_format import Conversation, ConversationTurn
from tests.unit.hansa_client.rounds import make_assignment

TALK = Conversation(
    "maze_1",
    (ConversationTurn("human", "Reach the goal."), ConversationTurn("gpt", "move up", True)),
)


def read(weed: LocalStore, source: str) -> demonstrations.DemonstrationFile | None:
    assignment = make_assignment(storage=weed.s3, demonstrations_from=source)
    return demonstrations.read(assignment, weed.store())


@pytest.fixture
def as_owner(weed: LocalStore, monkeypatch: pytest.MonkeyPatch) -> LocalStore:
    """The store, and its owner's credentials as a Pod gets a silo's own."""
    for name, value in weed.environ(RUNNER).items():
        monkeypatch.setenv(name, value)
    return weed


def test_a_file_in_another_bucket_is_read_with_the_silos_credentials(as_owner: LocalStore) -> None:
    silo = S3Store(as_owner.s3.model_copy(update={"bucket": "silo-data", "prefix": ""}))
    silo.ensure_bucket()
    data = agentgym_format.write([TALK])
    silo.put_if_absent("shown/maze.jsonl", data)
    source = "s3://silo-data/shown/maze.jsonl"
    file = read(as_owner, source)
    assert file
    assert file.conversations == [TALK]
    assert file.to_inputs() == {"demonstrationsFrom": source, "demonstrationsSha256": sha256(data)}
    with pytest.raises(PermanentError, match="which does not exist"):
        read(as_owner, f"{source}.gz")


def test_a_file_that_the_credentials_do_not_reach_is_told_by_its_field(
    as_owner: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    with pytest.raises(PermanentError, match=r"^spec.environments\[maze\].*may not read"):
        read(as_owner, "s3://other-data/a.jsonl")
