"""The hub by its own library, against a stand-in for its API: commits, digests, sentences."""

import pytest
from huggingface_hub import constants

from hansa.adapter import model_card
from hansa.adapter.lora import BaseName
from hansa.api import bucket_keys
from hansa.core.errors import Corrupt, HansaError, HubUnreachable, InputError
from hansa.publish.hub import DATASET, MODEL, Hub
from hansa.publish.parcel import Item
from hansa.publish.place import HubPlace
from hansa.publish.pull import pull_published
from tests.support import hub as stand_in
from tests.support.hub import READER
from tests.support.parcel_items import make_items

PLACE = HubPlace("acme/agent")
CARD = Item(model_card.NAME, b"---\nlibrary_name: peft\ntags:\n- hansa\n---\n")


@pytest.fixture
def server(monkeypatch, tmp_path):
    with stand_in.hub() as running:
        for name, value in running.variables(tmp_path / "home").items():
            monkeypatch.setenv(name, value)
        # What the library has read from the environment when it was imported.
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        yield running


def push(items=None, *, kind=MODEL, public=False, force=False, message="An adapter"):
    there = Hub()
    target = there.look(PLACE, kind, public=public, force=force)
    return there.push(target, items or [CARD, *make_items()], message)


def test_files_come_back_as_they_were_pushed_and_small_ones_are_no_lfs(server, tmp_path):
    pushed = push()
    assert pushed.url == f"{server.url}/acme/agent"
    version, files = pull_published(PLACE, tmp_path / "out")
    assert version == pushed.commit
    assert set(files) == {bucket_keys.ADAPTER, bucket_keys.CONFIG, model_card.NAME}
    for item in (CARD, *make_items()):
        assert (tmp_path / "out" / item.name).read_bytes() == item.content
    assert set(server.blobs) == {make_items()[1].sha256}


@pytest.mark.parametrize("public", [False, True])
def test_a_repository_that_is_made_is_private_unless_asked(server, public):
    push(public=public)
    assert server.repositories["models", "acme/agent"].private is not public


def test_pushing_again_makes_no_commit_and_a_change_makes_one(server):
    first = push()
    again = push()
    assert (again.is_new, again.commit) == (False, first.commit)
    changed = push([CARD, make_items()[1], Item(bucket_keys.CONFIG, b"{}")])
    assert changed.is_new
    assert len(server.repositories["models", "acme/agent"].commits) == 3  # with the hub's own


@pytest.mark.parametrize("path", ["/commit/", "/objects/batch", "/upload/"])
def test_a_push_that_broke_off_goes_on_and_sends_no_file_twice(server, monkeypatch, path):
    server.fail = lambda method, asked: 400 if path in asked else None
    with pytest.raises(HansaError, match="HTTP 400"):
        push()
    assert set(server.files("acme/agent")) == set()  # all or nothing
    server.fail = lambda method, asked: None
    assert push().is_new
    uploads = [each for each in server.log if each[1].startswith("/upload/")]
    assert len(uploads) == (2 if path == "/upload/" else 1)


def test_somebody_elses_repository_is_not_filled_unless_asked(server):
    server.add("acme/agent", {model_card.NAME: b"# My own model\n", "model.safetensors": b"mine"})
    with pytest.raises(InputError, match=r"holds files that hansa did not push \(README.md\)"):
        push()
    assert push(force=True).is_new
    assert server.files("acme/agent")["model.safetensors"] == b"mine"


def test_a_commit_in_between_is_not_overwritten(server):
    there = Hub()
    push()
    target = there.look(PLACE, MODEL, public=False, force=False)
    server.repositories["models", "acme/agent"].commit({"README.md": b"# Changed\n"}, "By hand")
    with pytest.raises(HubUnreachable, match="another push is changing"):
        there.push(target, [CARD], "An adapter")


@pytest.mark.parametrize(
    "token, expected",
    [
        ("hf_wrong", "rejected the token"),
        (READER, r"is not allowed to do \(HTTP 403: .*rights"),
    ],
)
def test_a_wrong_token_is_a_sentence(server, monkeypatch, token, expected):
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(InputError, match=expected):
        push()
    assert server.repositories == {}


def test_no_token_at_all_is_a_sentence(server, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", "/nonexistent/token")
    with pytest.raises(InputError, match="rejected the token") as refused:
        push()
    assert "HF_TOKEN" in refused.value.hint


def test_a_hub_that_is_away_or_broken_is_a_sentence(server, monkeypatch):
    server.fail = lambda method, asked: 500
    with pytest.raises(HubUnreachable, match=r"busy or broken \(HTTP 500\)"):
        push()
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(HubUnreachable, match="unreachable"):
        push()


@pytest.mark.parametrize("name", [bucket_keys.ADAPTER, bucket_keys.CONFIG])
def test_bytes_that_are_not_what_the_hub_has_noted_are_refused(server, monkeypatch, tmp_path, name):
    push()
    usual = stand_in._Handler._resolve

    def change(self, words, body):
        found = server.repositories["models", "acme/agent"].commits[-1][1]
        kept = found[name]
        found[name] = kept[:-1] + b"!"
        usual(self, words, body)
        found[name] = kept

    monkeypatch.setattr(stand_in._Handler, "_resolve", change)
    with pytest.raises(Corrupt, match=rf"{name}: its bytes are not what the hub's digest says"):
        pull_published(PLACE, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_revision_is_pulled_by_its_commit_and_an_unknown_one_is_refused(server, tmp_path):
    first = push()
    push([CARD, make_items()[1], Item(bucket_keys.CONFIG, b"{}")])
    version, _ = pull_published(HubPlace("acme/agent", first.commit), tmp_path / "out")
    assert version == first.commit
    assert (tmp_path / "out" / bucket_keys.CONFIG).read_bytes() == make_items()[0].content
    for place in (HubPlace("acme/agent", "v9"), HubPlace("acme/none")):
        with pytest.raises(InputError, match="which the hub does not have"):
            pull_published(place, tmp_path / "out")


def test_the_base_is_pinned_to_a_commit_with_its_licence_and_weights(server):
    readme = b"---\nlicense: mit\n---\n"
    commit = server.add("acme/base", {"README.md": readme, "model.safetensors": b"weights"})
    facts = Hub().base(BaseName("acme/base"))
    assert (facts.commit, facts.license) == (commit, "mit")
    assert facts.weights == {"model.safetensors": Item("", b"weights").sha256}
    with pytest.raises(InputError, match="--base: got acme/none, which the hub does not have"):
        Hub().base(BaseName("acme/none"))


def test_a_dataset_is_a_repository_of_its_own(server):
    there = Hub()
    target = there.look(PLACE, DATASET, public=False, force=False)
    there.push(target, [CARD], "Episodes")
    assert set(server.repositories) == {("datasets", "acme/agent")}
