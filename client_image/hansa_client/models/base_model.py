"""The base model: where it lives, its digest, and how it is loaded.

Finding and hashing a model needs no torch, so that a client that only reports again starts at once.
"""

import ctypes
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hansa.api.assignment import ENV_MODEL_CACHE
from hansa.api.bucket_documents import fingerprint
from hansa.api.spec import S3
from hansa.core.errors import HansaError, NotFound, PermanentError
from hansa.manifests import remote_code
from hansa_client.models.chat_template import Chat

if TYPE_CHECKING:
    import torch

    from hansa.store.base import ObjectStore

HASHED = (
    "config.json",
    "*.safetensors",
    "*.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
)
"""Files that decide what a base model does; only these are downloaded and hashed."""
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json")
_CHUNK = 64 * 2**20
_MALLOC = ((-3, 2**25), (-1, 2**29), (-2, 2**26))
"""glibc's mallopt: mmap threshold (32 MiB is its limit), trim threshold, top padding."""
_FITS = "expected a Hugging Face model: config.json, *.safetensors and a tokenizer"


@dataclass(frozen=True)
class Base:
    """A loaded base model; an adapter may be merged into its weights for a while."""

    model: Any
    """A Hugging Face causal LM in eval mode, without gradients."""
    chat: Chat
    """Its tokenizer and chat template."""
    device: "torch.device"
    """Its device."""

    def cap_length(self, wanted: int) -> int:
        """The wanted length of an episode, at most the model's number of positions."""
        config = self.model.config.get_text_config()
        return min(wanted, getattr(config, "max_position_embeddings", None) or wanted)


def resolve(source: str, storage: S3 | None = None) -> Path:
    """The folder of a model, downloaded if it is remote; PermanentError if it is no model."""
    kind, _, rest = source.partition(":")
    if kind not in ("builtin", "path", "s3", "hf"):
        raise PermanentError(
            f"spec.model.source: got {source}, expected builtin:NAME, path:FOLDER, "
            "s3://bucket/prefix or hf:org/name@revision"
        )
    if kind == "hf" and Path(rest).exists():
        raise PermanentError(
            f"spec.model.source: got {source}, which is a folder here, expected path:{rest}"
        )
    if kind == "builtin":
        folder = Path(__file__).parent / "builtin" / rest
    elif kind == "path":
        folder = Path(rest).expanduser()
    elif kind == "s3":
        folder = _download_from_s3(rest.removeprefix("//"), storage)
    else:
        folder = _download_from_hub(source, rest)
    _check(source, folder)
    return folder


def compute_digest(folder: Path) -> str:
    """Digest of a base model: sha256 over the sorted names and digests of its files."""
    digests: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        if is_model_file(path.name) and path.is_file():
            with path.open("rb") as file:
                digests[path.name] = file_digest(file, "sha256").hexdigest()
    return fingerprint(digests)


def load(source: str, folder: Path, threads: int, *, for_peft: bool = False) -> Base:
    """Load a model in fp32 on a CPU or bf16 on a GPU, and make torch deterministic where possible.

    `for_peft`: load even the builtin model by transformers, for use with PEFT itself.
    """
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads do not survive a fork
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # for deterministic cuBLAS
    import torch

    _keep_freed_memory()
    torch.set_num_threads(threads)
    torch.set_deterministic_debug_mode("warn")  # use_deterministic_algorithms imports a compiler
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # slow
    torch.backends.cuda.enable_cudnn_sdp(False)  # its backward pass is not deterministic
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    read = _read_builtin if is_builtin(source) and not for_peft else _read
    try:
        model, tokenizer = read(folder, dtype)
    except (MemoryError, torch.OutOfMemoryError):
        raise  # a retry, or a larger machine, may succeed
    except Exception as error:  # libraries raise anything for a broken file
        first = str(error).strip().partition("\n")[0]
        raise PermanentError(f"spec.model.source: got {source}, {_FITS} ({first})") from error
    model.requires_grad_(False).eval()
    return Base(model.to(device), Chat(tokenizer), device)


def is_builtin(source: str) -> bool:
    """Whether the model comes with Hansa, which needs neither transformers nor PEFT."""
    return source.startswith("builtin:")


def _read_builtin(folder: Path, dtype: "torch.dtype") -> tuple[Any, Any]:
    from hansa_client.models.builtin import llama
    from hansa_client.models.builtin import tokenizer as wordtokens

    return llama.load(folder, dtype), wordtokens.WordTokens(folder)


def _read(folder: Path, dtype: "torch.dtype") -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # one line per step in a log
    # Without trust_remote_code=False, transformers asks on stdin whether to run a model's code.
    tokenizer = AutoTokenizer.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False
    )
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, local_files_only=True, use_safetensors=True, trust_remote_code=False
    )
    return model, tokenizer


def _keep_freed_memory() -> None:
    """Let glibc keep memory that torch frees: page faults take a tenth of the time on a CPU."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # not glibc: only slower
        return
    for option, value in _MALLOC:
        mallopt(option, value)


def _check(source: str, folder: Path) -> None:
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    where = f"spec.model.source: got {source}"
    for holds, fault in (
        (folder.is_dir(), "is no folder"),
        ("config.json" in names, "has no config.json"),
        (any(name.endswith(".safetensors") for name in names), "has no *.safetensors"),
        (any(name in names for name in _TOKENIZERS), "has no tokenizer"),
    ):
        if not holds:
            raise PermanentError(f"{where}, which {fault}, {_FITS}")
    code = remote_code.find_remote_code(folder)
    if code:
        raise PermanentError(f"{where}, expected a model without code of its own ({code})")


def is_model_file(name: str) -> bool:
    """Whether a file of that name decides what a base model does."""
    return any(fnmatch(name, pattern) for pattern in HASHED)


def _download_from_s3(path: str, storage: S3 | None) -> Path:
    from hansa.store.s3 import S3Store

    bucket, _, prefix = path.partition("/")
    if storage is None:
        place = S3(bucket=bucket)
    else:
        place = storage.model_copy(update={"bucket": bucket, "prefix": ""})
    return download(
        S3Store(place), f"{place.endpoint}/{bucket}", prefix.strip("/"), make_cache_folder()
    )


def make_cache_folder() -> Path:
    """Folder of downloaded models: HANSA_MODEL_CACHE, or this user's own folder below /tmp."""
    if given := os.environ.get(ENV_MODEL_CACHE):
        folder = Path(given)
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    folder = Path(tempfile.gettempdir()) / f"hansa-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = folder.lstat()  # another user of this machine could have been first
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise PermanentError(
            f"{folder}: got a folder that others made or may use, expected one of this user's own",
            hint=f"remove it, or set {ENV_MODEL_CACHE} to a folder of yours",
        )
    return folder


def download(store: "ObjectStore", origin: str, prefix: str, into: Path) -> Path:
    """Download a model's files below a prefix once; the folder appears complete or not at all."""
    target = into / sha256(f"{origin}/{prefix}".encode()).hexdigest()[:24]
    if target.is_dir():
        return target
    partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=into))
    try:
        _fetch(store, f"{prefix}/", partial)
        partial.replace(target)
    except OSError:
        if not target.is_dir():  # otherwise another process was faster
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def _fetch(store: "ObjectStore", folder: str, into: Path) -> None:
    try:
        keys: Iterable[str] = list(store.list(folder))
    except NotFound:
        keys = []
    for key in keys:
        name = key.removeprefix(folder)
        if "/" not in name and is_model_file(name):
            with (into / name).open("wb") as file:
                for start in range(0, max(store.size(key), 1), _CHUNK):
                    file.write(store.get_range(key, start, _CHUNK))


def _download_from_hub(source: str, rest: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    name, _, revision = rest.partition("@")
    try:
        folder = snapshot_download(
            name,
            revision=revision or None,
            allow_patterns=list(HASHED),
            cache_dir=make_cache_folder() / "hub",
        )
    except (RepositoryNotFoundError, RevisionNotFoundError) as error:
        raise PermanentError(f"spec.model.source: got {source}, which the hub lacks") from error
    except Exception as error:  # the hub client raises its transport's errors as they are
        raise HansaError(
            f"spec.model.source: {source} could not be downloaded ({type(error).__name__})",
            hint="hf: needs a network; s3:// and path: work without one",
        ) from error
    return Path(folder)
