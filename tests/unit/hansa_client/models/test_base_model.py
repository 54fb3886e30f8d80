"""Base models: found, hashed, downloaded once, and refused with the field that is wrong."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hansa.core.errors import HansaError, PermanentError
from hansa_client.models import base_model
from tests.support.memory_store import MemoryStore


def test_the_builtin_model_is_found() -> None:
    assert (base_model.resolve("builtin:tiny") / "config.json").is_file()


def remove(pattern: str) -> Callable[[Path], None]:
    return lambda folder: [file.unlink() for file in folder.glob(pattern)]  # type: ignore[return-value]


@pytest.mark.parametrize(
    "damage, message",
    [
        pytest.param(shutil.rmtree, "is no folder", id="no folder"),
        pytest.param(remove("config.json"), "has no config.json", id="no config"),
        pytest.param(remove("*.safetensors"), "has no *.safetensors", id="no weights"),
        pytest.param(remove("tokenizer*.json"), "has no tokenizer", id="no tokenizer"),
    ],
)
def test_a_folder_that_is_no_model_says_what_is_missing(
    random_model: Path, tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(random_model, folder)
    damage(folder)
    with pytest.raises(PermanentError) as error:
        base_model.resolve(f"path:{folder}")
    assert error.value.message.startswith(f"spec.model.source: got path:{folder}, which {message}")


@pytest.mark.attack(
    by="the author of a Federation",
    does="names a base model with code of its own (`auto_map`)",
    result="refused; no prompt offers to run it",
)
@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_a_model_with_code_of_its_own_is_refused_and_nobody_is_asked(
    random_model: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(question: str = "") -> str:
        raise AssertionError(f"asked: {question}")

    monkeypatch.setattr("builtins.input", ask)
    folder = with_code(random_model, tmp_path / "model", name)
    with pytest.raises(PermanentError) as error:
        base_model.resolve(f"path:{folder}")
    assert error.value.message.startswith(
        f"spec.model.source: got path:{folder}, expected a model without code of its own "
        f"({name} has auto_map"
    )
    with pytest.raises(PermanentError):  # as where a file changes after it was looked at
        base_model.load(f"path:{folder}", folder, 1)
    assert not (folder / "ran").exists()


def with_code(model: Path, folder: Path, name: str) -> Path:
    """The model with a file that asks for a class of the folder's own code."""
    shutil.copytree(model, folder)
    (folder / "code.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\nclass Own: pass\n")
    document = json.loads((folder / name).read_bytes())
    document["auto_map"] = {
        "config.json": {"AutoConfig": "code.Own", "AutoModelForCausalLM": "code.Own"},
        "tokenizer_config.json": {"AutoTokenizer": ["code.Own", None]},
    }[name]
    kind = "model_type" if name == "config.json" else "tokenizer_class"
    document[kind] = "unheard-of"
    (folder / name).write_text(json.dumps(document))
    return folder


def test_an_unknown_builtin_is_refused() -> None:
    with pytest.raises(PermanentError, match=r"^spec\.model\.source: got builtin:huge"):
        base_model.resolve("builtin:huge")


@pytest.mark.parametrize(
    "name, content",
    [
        pytest.param("model.safetensors", b"garbage", id="weights"),
        pytest.param("config.json", b'{"model_type": "unheard-of"}', id="architecture"),
        pytest.param("config.json", b"{", id="config"),
        pytest.param("tokenizer.json", b"{}", id="tokenizer"),
    ],
)
def test_a_broken_model_is_a_sentence_and_no_traceback(
    random_model: Path, tmp_path: Path, name: str, content: bytes
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(random_model, folder)
    (folder / name).write_bytes(content)
    with pytest.raises(PermanentError, match=r"^spec\.model\.source: got path:x"):
        base_model.load("path:x", folder, 1)


def test_a_digest_follows_the_files_that_count(random_model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    shutil.copytree(random_model, folder)
    assert base_model.compute_digest(folder) == base_model.compute_digest(random_model)
    (folder / "README.md").write_text("prose")
    assert base_model.compute_digest(folder) == base_model.compute_digest(random_model)
    (folder / "chat_template.jinja").write_text("other")
    assert base_model.compute_digest(folder) != base_model.compute_digest(random_model)


def stored(folder: Path) -> MemoryStore:
    store = MemoryStore()
    for file in folder.iterdir():
        store.objects[f"models/small/{file.name}"] = file.read_bytes()
    store.objects["models/small/training/optimizer.safetensors"] = b"not wanted"
    store.objects["models/smaller/config.json"] = b"another model"
    return store


def test_a_model_is_downloaded_once_and_whole(random_model: Path, tmp_path: Path) -> None:
    store = stored(random_model)
    folder = base_model.download(store, "here/bucket", "models/small", tmp_path)
    assert base_model.compute_digest(folder) == base_model.compute_digest(random_model)
    store.objects.clear()
    assert base_model.download(store, "here/bucket", "models/small", tmp_path) == folder
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


def test_a_download_that_breaks_off_leaves_nothing(random_model: Path, tmp_path: Path) -> None:
    store = stored(random_model)

    class Breaking(MemoryStore):
        def get_range(self, key: str, start: int, length: int) -> bytes:
            raise ConnectionError("gone")

    broken = Breaking()
    broken.objects = store.objects
    with pytest.raises(ConnectionError):
        base_model.download(broken, "here/bucket", "models/small", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_hub_without_network_says_what_works_instead(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HANSA_MODEL_CACHE", str(tmp_path))
    with pytest.raises(HansaError) as error:
        base_model.resolve("hf:nobody/nothing@main")
    assert "hf:nobody/nothing@main could not be downloaded" in error.value.message
    assert "path:" in error.value.hint


@pytest.mark.parametrize("source", ["models/own", "./own", "/models/own", "hf:models/own"])
def test_a_folder_is_never_asked_of_the_hub(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(*_: object, **__: object) -> None:
        raise AssertionError("the hub was asked")

    monkeypatch.setattr("huggingface_hub.snapshot_download", ask)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models/own").mkdir(parents=True)
    with pytest.raises(PermanentError, match=r"got .*, expected .*path:"):
        base_model.resolve(source)
