"""`hansa audit`: a line for each round, and an exit code that a script can use."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hansa.api import bucket_keys
from hansa.api.bucket_documents import AuditHead
from hansa.api.spec import FederationSpec
from hansa.api.storage import Storage
from hansa.cli.main import main as hansa
from hansa.core.errors import Denied
from hansa_server.commands import audit
from tests.support.builders import make_federation
from tests.support.lettered_runs import lettered, spec
from tests.support.memory_store import MemoryStore
from tests.unit.hansa_server.audited import flipped, forge_merge, make_run
from tests.unit.hansa_server.rounds import PREFIX, Round


@pytest.fixture
def audited(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command on a store; exit code, lines and talk."""

    def run(
        store: MemoryStore,
        *arguments: str,
        undone: Iterable[int] = (),
        spec: FederationSpec | None = None,
    ) -> tuple[int, list[str], str]:
        @contextmanager
        def opened(*_: object) -> Iterator[audit.OpenedRun]:
            place = {"storage": Round().assignment().storage, "store": store}
            federation = make_federation("maze", "wordle")
            if spec:
                federation = federation.model_copy(update={"spec": spec})
            yield audit.OpenedRun(
                federation=federation, adapters={}, head=None, undone=frozenset(undone), **place
            )

        monkeypatch.setattr(audit, "_open", opened)
        capsys.readouterr()  # what the run's own aggregators said
        with pytest.raises(SystemExit) as ended:
            hansa(["audit", "./run", *arguments])
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out.splitlines(), said.err

    return run


def test_a_sound_run_has_a_line_for_each_round_and_ends_with_0(audited):
    code, lines, said = audited(make_run(3, refused=True))
    assert lines == [
        "round 1: equal: 3 updates merged",
        "round 2: equal: 2 updates merged, refused: maze (not-finite)",
        "round 3: equal: 3 updates merged",
    ]
    assert (code, said) == (0, "3 equal\n")


def test_what_differs_ends_with_1(audited):
    store = make_run(2)
    name = forge_merge(store, 2)
    code, lines, said = audited(store)
    assert code == 1
    assert lines[1].startswith("round 2: differs: demo/global/00002/adapter_model.safetensors: ")
    assert f"tensor {name} differs by up to " in lines[1]
    assert said == "1 equal, 1 differs\n"


def test_what_cannot_be_checked_ends_with_3(audited):
    store = make_run(2)
    del store.objects[f"{PREFIX}/updates/maze/00002/{bucket_keys.ADAPTER}"]
    code, lines, _ = audited(store)
    assert code == 3
    assert lines[1].startswith("round 2: cannot be: demo/updates/maze/00002/adapter_model")


def test_all_that_was_found_of_a_round_is_told(audited):
    store = make_run(1)
    for name in ("maze", "wordle"):
        key = f"{PREFIX}/updates/{name}/00001/{bucket_keys.ADAPTER}"
        store.objects[key] = flipped(store.objects[key], -1 % len(store.objects[key]))
    _, lines, _ = audited(store)
    assert len(lines) == 2
    assert lines[1].startswith("  demo/updates/wordle/00001/")


def test_one_round_can_be_asked_for(audited):
    assert audited(make_run(3), "--round", "2")[:2] == (0, ["round 2: equal: 3 updates merged"])
    code, _, said = audited(make_run(1), "--round", "7")
    assert code == 2
    assert "--round: got 7, which no entry of the audit log is about" in said


def test_a_program_reads_it_as_json(audited):
    _, lines, _ = audited(make_run(1), "-o", "json")
    found = json.loads("\n".join(lines))["rounds"]
    none: dict[str, Any] = {"differs": [], "cannotBe": [], "refused": [], "undone": False}
    none["signed"] = False
    assert found == [{"round": 1, "verdict": "equal", **none}]
    _, lines, _ = audited(make_run(2, refused=True), "-o", "json")
    refused = json.loads("\n".join(lines))["rounds"][1]["refused"]
    assert refused == [{"environment": "maze", "reason": "not-finite"}]


def test_letters_of_silos_elsewhere_are_counted(audited):
    store = lettered(2)
    garbage = bucket_keys.answer(PREFIX, "maze", 3)
    store.objects[garbage] = b"garbage"
    code, lines, said = audited(store, spec=spec())
    assert (code, said) == (0, "2 equal\n")
    assert lines == [
        "round 1: equal: 3 updates merged; signed",
        "round 2: equal: 3 updates merged; signed",
        "letters of maze: 3 orders and 2 answers verified, refused: 1 malformed",
    ]
    _, lines, _ = audited(store, "-o", "json", spec=spec())
    data = json.loads("\n".join(lines))
    assert [each["signed"] for each in data["rounds"]] == [True, True]
    refused = {"malformed": 1}
    assert data["letters"] == [
        {"environment": "maze", "orders": 3, "answers": 2, "refused": refused}
    ]


def test_before_the_first_round_there_is_nothing_to_say(audited):
    code, lines, said = audited(MemoryStore())
    assert (code, lines) == (3, [])
    assert "nothing to audit" in said


def test_who_may_not_read_the_log_is_told(audited, monkeypatch):
    store = make_run(1)

    def deny(prefix: str) -> Iterator[str]:
        raise Denied(f"{prefix}: access denied")

    monkeypatch.setattr(store, "list", deny)
    code, _, said = audited(store)
    assert code == 42
    assert "audit/: access denied" in said


def test_a_federation_on_a_cluster_is_audited_with_a_readers_credentials(
    monkeypatch, tmp_path, capsys
):
    storage = Round().assignment().storage.model_copy(update={"endpoint": "http://127.0.0.1:1"})
    document = make_federation(storage={"s3": storage.to_json()}).model_dump(
        mode="json", by_alias=True, exclude_none=True
    )
    document["status"] = {"history": [{"round": 0, "outcome": "base"}, {"round": 1, "adapter": ""}]}
    used = []

    def own_store(spec: Any, variables: Any = None) -> MemoryStore:
        used.append((spec.storage.s3.endpoint, variables["AWS_ACCESS_KEY_ID"]))
        return make_run(1)

    class Federations:
        def get(self, name: str) -> Any:
            return document

    monkeypatch.setattr("hansa.cli.target.ClusterOptions.open", lambda *_: Federations())
    monkeypatch.setattr("hansa.local.loop.own_store", own_store)
    given = {"default": {"AWS_ACCESS_KEY_ID": "reader"}, "maze": {"AWS_ACCESS_KEY_ID": "own"}}
    path = tmp_path / "credentials.json"
    path.write_text(json.dumps(given))
    place = ["--endpoint", "http://127.0.0.1:9", "--credentials", str(path)]
    with pytest.raises(SystemExit) as ended:
        hansa(["audit", "fed", *place])
    assert ended.value.code == 0, capsys.readouterr()
    assert used == [("http://127.0.0.1:9", "reader")]
    assert "round 1: equal: " in capsys.readouterr().out


def test_what_the_status_says_of_its_rounds_is_compared():
    history = [{"round": 0, "adapter": ""}, {"round": 1, "adapter": "abc", "new": "field"}]
    status: Any = {"history": [*history, {"round": 2, "outcome": "undone"}]}
    federation = make_federation("maze")
    storage = Storage(s3=Round().assignment().storage)
    spec = federation.spec.model_copy(update={"storage": storage})

    def read(status: dict[str, Any]) -> tuple[dict[int, str], frozenset[int], AuditHead | None]:
        known = federation.model_copy(update={"spec": spec})
        opened = audit._build_opened(known, MemoryStore(), status)
        return opened.adapters, opened.undone, opened.head

    assert read(status) == ({1: "abc"}, frozenset({2}), None)
    status["audit"] = {"round": 1, "sha256": "a" * 64, "new": "field"}
    assert read(status)[2] == AuditHead(round=1, sha256="a" * 64)
    assert read({}) == ({}, frozenset(), None)


def test_a_run_is_asked_for(capsys):
    with pytest.raises(SystemExit) as ended:
        hansa(["audit"])
    assert ended.value.code == 2
    assert "missing argument 'RUN'" in capsys.readouterr().err


def test_rounds_that_a_rollback_has_undone_say_so(audited):
    _, lines, _ = audited(make_run(2), undone=[2])
    assert lines[1] == "round 2: equal: 3 updates merged; a rollback has undone it"
    _, lines, _ = audited(make_run(2), "-o", "json", undone=[2])
    assert [r["undone"] for r in json.loads("\n".join(lines))["rounds"]] == [False, True]
