"""An adapter in a registry: ORAS' layout, credentials, digests, and what goes wrong."""

import base64
import json
import re

import pytest

from hansa.api import bucket_keys
from hansa.core.errors import Corrupt, HansaError, HubUnreachable, InputError
from hansa.publish import registry
from hansa.publish.parcel import Item
from hansa.publish.place import parse
from hansa.publish.pull import pull_published
from tests.support import registry as stand_in
from tests.support.parcel_items import make_items
from tests.support.registry import Registry

LOGIN = base64.b64encode(b"me:secret").decode()


@pytest.fixture
def server(monkeypatch, tmp_path):
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "auth.json"))
    with stand_in.registry() as running:
        yield running


def push(server, tag="v1", *, items=None, force=False):
    items = items or make_items()
    place = parse("--to", f"oci://{server.host}/acme/agent:{tag}")
    return place, registry.push(place, items, registry.manifest(items, {}), force=force)


def answers(monkeypatch, change):
    """Let a function see each request of the stand-in first; true: it has answered."""
    handler = stand_in._Handler
    for method in ("do_GET", "do_HEAD", "do_POST", "do_PUT"):
        usual = getattr(handler, method)

        def act(self, usual=usual):
            if not change(self):
                usual(self)

        monkeypatch.setattr(handler, method, act)


def test_files_are_layers_with_their_names_and_come_back_by_digest(server, tmp_path):
    place, pushed = push(server)
    document = json.loads(server.blobs[pushed.digest][0])
    assert document["artifactType"] == "application/vnd.hansa.adapter.v1"
    assert document["config"]["mediaType"] == "application/vnd.oci.empty.v1+json"
    titles = [each["annotations"][registry.TITLE] for each in document["layers"]]
    assert titles == [bucket_keys.CONFIG, bucket_keys.ADAPTER]
    version, _ = pull_published(place, tmp_path / "tag")
    assert version == pushed.digest
    pull_published(
        parse("", f"oci://{server.host}/acme/agent@{pushed.digest}"), tmp_path / "digest"
    )
    for item in make_items():
        for name in ("tag", "digest"):
            assert (tmp_path / name / item.name).read_bytes() == item.content


def test_pushing_again_sends_nothing_and_a_killed_push_goes_on(server, monkeypatch):
    sent = []
    answers(monkeypatch, lambda handler: sent.append(handler.command))
    first, last = make_items()
    server.put(last.content)  # what a push that was killed has left
    _, pushed = push(server, items=[first, last])
    assert pushed.is_new
    assert sent.count("POST") == 2  # the empty config and the file that was missing
    sent.clear()
    _, again = push(server, items=[first, last])
    assert (again.digest, again.is_new, sent) == (pushed.digest, False, ["GET"])


def test_a_tag_of_something_else_is_not_moved_unless_asked(server):
    server.add_index("acme/agent:v1", b"an image's layer")
    with pytest.raises(InputError, match="something else than an adapter"):
        push(server)
    assert push(server, force=True)[1].is_new


def test_a_digest_is_no_place_to_push_to(server):
    place = parse("--to", f"oci://{server.host}/a@sha256:{'0' * 64}")
    with pytest.raises(InputError, match="expected a tag"):
        registry.push(place, [], b"", force=False)


@pytest.mark.parametrize("what", ["a file", "the manifest"])
def test_bytes_that_are_not_what_the_digest_says_are_refused(server, tmp_path, what):
    _, pushed = push(server)
    entry = json.loads(server.blobs[pushed.digest][0])["layers"][-1]["digest"]
    digest = entry if what == "a file" else pushed.digest
    content, kind = server.blobs[digest]
    server.blobs[digest] = (content.replace(b"q_proj", b"k_proj"), kind)
    if what == "the manifest":
        server.blobs[digest] = (content.replace(b"vnd.safe", b"vnd.evil"), kind)
    place = parse("", f"oci://{server.host}/acme/agent@{pushed.digest}")
    with pytest.raises(Corrupt, match=r"not what the .*digest says"):
        pull_published(place, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_is_no_plain_adapter_is_refused(server, tmp_path):
    place, _ = push(
        server, items=[Item(bucket_keys.ADAPTER, b"{}"), Item(bucket_keys.CONFIG, b"[]")]
    )
    with pytest.raises(InputError, match=r"adapter_config.json: lora_alpha"):
        pull_published(place, tmp_path / "out")
    other, _ = push(server, "v2", items=make_items()[:1])
    with pytest.raises(InputError, match=r"which has no adapter_model.safetensors"):
        pull_published(other, tmp_path / "out")
    with pytest.raises(InputError, match="which the registry does not have"):
        pull_published(parse("", f"oci://{server.host}/acme/none:v1"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_layer_longer_than_it_says_is_not_read(server, tmp_path):
    place, pushed = push(server)
    document = json.loads(server.blobs[pushed.digest][0])
    document["layers"][-1]["size"] = 10
    changed = server.put(json.dumps(document).encode(), registry.MANIFEST)
    server.tags["acme/agent:v1"] = changed["digest"]
    with pytest.raises(HansaError, match="more than 10 bytes"):
        pull_published(place, tmp_path / "out")


def logged_in(server: Registry, tmp_path, auth: str = LOGIN) -> None:
    (tmp_path / "auth.json").write_text(json.dumps({"auths": {server.host: {"auth": auth}}}))


def with_tokens(server, monkeypatch):
    """Let the registry ask for a token, which its /token gives for a login."""
    seen = []

    def change(handler):
        given = handler.headers.get("Authorization", "")
        if handler.path.startswith("/token"):
            seen.append((handler.path, given))
            is_known = given == f"Basic {LOGIN}"
            handler.answer(200 if is_known else 401, b'{"token": "abc"}' if is_known else b"{}")
        elif given != "Bearer abc":
            handler.body()
            realm = f'Bearer realm="http://{server.host}/token",service="tests"'
            handler.answer(401, b"{}", {"WWW-Authenticate": realm})
        else:
            return False
        return True

    answers(monkeypatch, change)
    return seen


def test_a_token_is_asked_for_with_the_login(server, monkeypatch, tmp_path):
    logged_in(server, tmp_path)
    seen = with_tokens(server, monkeypatch)
    assert push(server)[1].is_new
    assert len(seen) == 1
    assert "repository%3Aacme%2Fagent%3Apush%2Cpull" in seen[0][0]


@pytest.mark.parametrize("auth", ["", base64.b64encode(b"me:wrong").decode()])
def test_a_wrong_login_is_a_sentence(server, monkeypatch, tmp_path, auth):
    logged_in(server, tmp_path, auth)
    with_tokens(server, monkeypatch)
    with pytest.raises(InputError, match=r"does not allow it \(HTTP 401\)") as refused:
        push(server)
    assert "docker login" in refused.value.hint
    assert server.tags == {}


@pytest.mark.parametrize(
    "text, expected",
    [
        ("{", "no docker config"),
        ('{"auths": {"HOST": {"auth": "??"}}}', "something else than user:password"),
    ],
)
def test_a_file_of_logins_that_is_none_is_a_sentence(server, tmp_path, text, expected):
    (tmp_path / "auth.json").write_text(text.replace("HOST", server.host))
    with pytest.raises(InputError, match=expected):
        push(server)


def test_credentials_go_to_nobody_else_and_no_address_in_the_clear(server, monkeypatch, tmp_path):
    place, _ = push(server)
    seen = []

    with stand_in.registry() as other:
        other.blobs.update(server.blobs)

        def change(handler):
            if handler.server is other:
                seen.append(handler.headers.get("Authorization"))
                return False
            if handler.headers.get("Authorization") != f"Basic {LOGIN}":
                handler.answer(401, b"{}", {"WWW-Authenticate": 'Basic realm="tests"'})
                return True
            if "/blobs/" not in handler.path:
                return False
            where = f"http://{other.host}{handler.path}" if not evil else "http://example.com/x"
            handler.answer(307, b"", {"Location": where})
            return True

        evil = False
        answers(monkeypatch, change)
        logged_in(server, tmp_path)
        pull_published(place, tmp_path / "out")
        assert seen
        assert set(seen) == {None}
        evil = True
        with pytest.raises(HansaError, match="an address without TLS"):
            pull_published(place, tmp_path / "out")


@pytest.mark.parametrize("code", [500, 503, 429])
def test_a_registry_that_is_broken_or_busy_is_away(server, monkeypatch, code):
    def change(handler):
        handler.body()
        handler.answer(code, b'{"errors": [{"code": "TOOMANYREQUESTS"}]}')
        return True

    answers(monkeypatch, change)
    with pytest.raises(HubUnreachable, match=rf"HTTP {code}: TOOMANYREQUESTS"):
        push(server)


def test_a_registry_that_does_not_answer_is_away():
    items = make_items()
    place = parse("--to", "oci://localhost:1/a:v1")
    with pytest.raises(HubUnreachable, match="does not answer") as away:
        registry.push(place, items, registry.manifest(items, {}), force=False)
    assert re.search("again to resume", away.value.hint)
