"""The Hugging Face hub through huggingface_hub: look, push one commit, pull files.

The library finds the token ($HF_TOKEN, or that of `hf auth login`) and the address ($HF_ENDPOINT).
A push is one commit: if it is killed before that, nothing has changed, and files that were uploaded
are not sent again.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hansa.adapter import model_card
from hansa.adapter.lora import BaseName
from hansa.api.bucket_documents import sha256
from hansa.core.errors import Corrupt, HansaError, HubUnreachable, InputError
from hansa.core.text import shorten
from hansa.publish.parcel import FILES, Item
from hansa.publish.place import HubPlace

MODEL, DATASET = "model", "dataset"
_TIMEOUT_SECONDS = 30.0
_IGNORED = ".gitattributes"
"""The hub's own file in every repository."""


@dataclass(frozen=True, kw_only=True)
class BaseFacts:
    """What the hub says of a base model."""

    commit: str
    """The revision as a commit, which never moves."""
    license: str
    """Its licence; empty: the card names none."""
    weights: dict[str, str] = field(default_factory=dict)
    """Digests of its files of weights, by name."""


@dataclass(frozen=True, kw_only=True)
class HubRepository:
    """A repository before a push."""

    repository: str
    kind: str
    head: str | None
    """Its newest commit; None: there is no repository yet."""
    is_public: bool
    """Whether everybody reads what is pushed."""


@dataclass(frozen=True, kw_only=True)
class HubPush:
    """What a push has done."""

    url: str
    commit: str
    is_new: bool
    """Whether there is a new commit; the same files make none."""


class Hub:
    """The hub with the user's token; every failure is a sentence."""

    def __init__(self, option: str = "--to") -> None:
        self._option = option
        endpoint = os.environ.get("HF_ENDPOINT") or None
        self._api = _import_library().HfApi(endpoint=endpoint, library_name="hansa")

    def base(self, base: BaseName) -> BaseFacts:
        """What a base model is there; an error where it is none."""
        what = f"--base: got {base.name}"
        with self._said(what, f"{what}, which the hub does not have, or not for this token"):
            info = self._api.model_info(
                base.name,
                revision=base.revision or None,
                files_metadata=True,
                timeout=_TIMEOUT_SECONDS,
            )
        named = info.card_data.get("license") if info.card_data else None
        weights = {
            each.rfilename: each.lfs.sha256
            for each in info.siblings or []
            if each.lfs and each.rfilename.endswith(".safetensors")
        }
        license_ = named if isinstance(named, str) else ""
        return BaseFacts(commit=str(info.sha), license=license_, weights=weights)

    def look(self, place: HubPlace, kind: str, *, public: bool, force: bool) -> HubRepository:
        """The repository, before anything is sent; one with others' files is not ours to fill."""
        info = self._info(place.repository, kind)
        head, is_public = (info.sha, not info.private) if info else (None, public)
        names = {each.rfilename for each in (info and info.siblings) or []} - {_IGNORED}
        if names and not force and not self._is_ours(place, kind, str(info.sha), names):
            raise InputError(
                f"{self._option}: got {place}, which holds files that hansa did not push "
                f"({sorted(names)[0]}), expected a new repository or one of its own",
                hint="--force adds to it, and replaces files of the same names",
            )
        return HubRepository(repository=place.repository, kind=kind, head=head, is_public=is_public)

    def push(self, target: HubRepository, items: Sequence[Item], message: str) -> HubPush:
        """One commit with all files; none where the repository has them already."""
        add = _import_library().CommitOperationAdd
        what = f"{self._option}: got hf:{target.repository}"
        with self._said(what, f"{what}, which the hub does not have, or not for this token"):
            if target.head is None:
                self._api.create_repo(
                    target.repository,
                    repo_type=target.kind,
                    private=not target.is_public,
                    exist_ok=True,
                )
            made = self._api.create_commit(
                target.repository,
                [add(each.name, each.content) for each in items],
                commit_message=message,
                repo_type=target.kind,
                parent_commit=target.head,
            )
        url = str(made.commit_url).partition("/commit/")[0]
        return HubPush(url=url, commit=made.oid, is_new=made.oid != target.head)

    def pull(self, place: HubPlace) -> tuple[str, list[Item]]:
        """The adapter's files of a repository, each with the digest that the hub has; its commit.

        Files of weights are checked by SHA-256, small ones by git's own digest of them.
        """
        what = f"{self._option}: got {place}"
        with self._said(what, f"{what}, which the hub does not have, or not for this token"):
            info = self._api.model_info(
                place.repository, revision=place.revision or None, timeout=_TIMEOUT_SECONDS
            )
            commit = str(info.sha)
            tree = self._api.list_repo_tree(place.repository, revision=commit)
            known = {each.path: each for each in tree if each.path in FILES}
            items = [
                Item(name, self._download(place.repository, MODEL, commit, name))
                for name in sorted(known)
            ]
        for item in items:
            _check(item, known[item.name], place)
        return commit, items

    def _info(self, repository: str, kind: str) -> Any:
        """What the hub says of a repository; None where there is none."""
        missing = _import_library().errors.RepositoryNotFoundError
        with self._said(f"{self._option}: got hf:{repository}"):
            try:
                return self._api.repo_info(repository, repo_type=kind, timeout=_TIMEOUT_SECONDS)
            except missing as error:
                if error.response.status_code == 401:
                    raise
                return None

    def _is_ours(self, place: HubPlace, kind: str, commit: str, names: set[str]) -> bool:
        if model_card.NAME not in names:
            return False
        with self._said(f"{self._option}: got {place}"):
            content = self._download(place.repository, kind, commit, model_card.NAME)
        return model_card.is_hansa_card(content.decode(errors="replace"))

    def _download(self, repository: str, kind: str, commit: str, name: str) -> bytes:
        with tempfile.TemporaryDirectory(prefix="hansa-hub-") as scratch:
            path = self._api.hf_hub_download(
                repository, name, repo_type=kind, revision=commit, local_dir=scratch
            )
            return Path(path).read_bytes()

    @contextmanager
    def _said(self, what: str, missing: str = "") -> Iterator[None]:
        """The library's failures as sentences; `what` names the option, `missing` is of a 404."""
        try:
            yield
        except Exception as error:
            raise _explain_error(error, what, missing) from error


def _explain_error(error: Exception, what: str, missing: str) -> Exception:
    """A failure of the library as a sentence; one of ours stays as it is."""
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, Exception):
        error = error.__cause__  # the library says which file, its cause says why
    import httpx

    errors = _import_library().errors
    if isinstance(error, errors.HfHubHTTPError):
        return _explain_status(error, what, missing)
    if isinstance(error, errors.OfflineModeIsEnabled):
        return InputError(f"{what}, but HF_HUB_OFFLINE is set")
    if isinstance(error, (OSError, RuntimeError, httpx.HTTPError)):
        return HubUnreachable(
            f"{what}, but the hub is unreachable ({shorten(str(error) or repr(error))})",
            hint="run the same command again to resume; nothing is sent twice",
        )
    if isinstance(error, ValueError):
        return HansaError(f"{what}: unexpected answer of the hub ({shorten(error)})")
    return error


def _explain_status(error: Any, what: str, missing: str) -> HansaError:
    code = error.response.status_code
    said = shorten(getattr(error, "server_message", "") or "")
    if code == 401:
        return InputError(
            f"{what}, but the hub rejected the token (HTTP 401)",
            hint="set HF_TOKEN, or run `hf auth login`",
        )
    if code == 403:
        return InputError(
            f"{what}, which this token is not allowed to do (HTTP 403{': ' if said else ''}{said})",
            hint="the token needs write access there",
        )
    if code == 404 and missing:
        return InputError(missing)
    if code in (409, 412):
        return HubUnreachable(
            f"{what}, which another push is changing (HTTP {code})",
            hint="run the same command again",
        )
    if code == 429 or code >= 500:
        return HubUnreachable(
            f"{what}, but the hub is busy or broken (HTTP {code})",
            hint="run the same command again to resume; nothing is sent twice",
        )
    return HansaError(f"{what}: HTTP {code}: {said or shorten(error)}")


def _check(item: Item, known: Any, place: HubPlace) -> None:
    content = item.content
    if known.lfs:
        is_same = sha256(content) == known.lfs.sha256
    else:
        head = b"blob %d\0" % len(content)
        is_same = hashlib.sha1(head + content).hexdigest() == known.blob_id  # noqa: S324  git's
    if not is_same:
        raise Corrupt(f"{place}: {item.name}: its bytes are not what the hub's digest says")


def _import_library() -> Any:
    """The hub's library, which is imported where it is used alone, and made to be silent."""
    try:
        import huggingface_hub
        import huggingface_hub.errors
        import huggingface_hub.utils
    except ImportError as error:
        raise InputError(
            f"hf: needs the package huggingface_hub ({error})", hint="pip install 'hansa[client]'"
        ) from None
    library: Any = huggingface_hub
    library.logging.set_verbosity_error()
    library.utils.disable_progress_bars()
    return library
