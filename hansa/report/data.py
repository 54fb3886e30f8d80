"""From a federation and its bucket to the data of a report."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from hansa.api import bucket_keys
from hansa.api.bucket_documents import EvaluationDocument, GlobalManifest, UpdateManifest
from hansa.api.status import Federation, HistoryEntry
from hansa.report import run_settings, shards
from hansa.report.reading import Notes, Reader, parse_count, parse_number, parse_seconds
from hansa.report.run_facts import (
    EnvironmentRound,
    EpisodePair,
    ReportData,
    Round,
    RoundInputs,
    Score,
    ShownEpisode,
    build_scores,
    compute_noise,
)
from hansa.store.base import ObjectStore

MOST_PAIRS = 12
"""Environments whose episodes are shown; the page of a hundred must still open."""
MADE = ("aggregated", "rejected")
"""Outcomes of rounds that made a global adapter."""
_MOST_FALLBACKS = 200
"""Update manifests read one by one, of environments that are no members of a round."""
_MOST_INPUTS = 300
"""Members' manifests read for what each used; where there are more, one member speaks for all."""


def collect(
    federation: Federation,
    store: ObjectStore | None,
    *,
    private: Mapping[str, ObjectStore] | None = None,
    now: datetime | None = None,
    adapter: str = "",
    episodes: bool = True,
) -> ReportData:
    """Read what a report shows; the rounds are those of the status' history.

    `private` has stores of environments' experience: of one with an experienceStorage of its own,
    where the caller holds its credentials, and of one whose experience may be sealed. `adapter` is
    a local folder of the last adapter. `episodes=False` leaves every trajectory out, for a page
    that goes to other silos.
    """
    notes = Notes()
    collector = _Collector(federation, Reader(store, notes), notes)
    rounds = collector.rounds()
    shown = collector.episodes(rounds, private or {}) if episodes else ()
    return ReportData(
        federation=federation,
        rounds=rounds,
        episodes=shown,
        notes=(*_describe_gaps(rounds), *notes.sentences()),
        programs=tuple(sorted(collector.programs)),
        base_model=collector.base_model,
        adapter=adapter,
        made_at=now,
    )


def _describe_gaps(rounds: tuple[Round, ...]) -> tuple[str, ...]:
    numbers = [entry.number for entry in rounds]
    missing = sorted(set(range(max(numbers, default=-1) + 1)) - set(numbers))
    if not missing:
        return ()
    return (
        f"Not shown: {len(missing)} of {numbers[-1] + 1} rounds (the first is {missing[0]}): "
        "the status keeps the base, the best and the newest ones.",
    )


def _dated(rounds: Sequence[Round]) -> Iterator[Round]:
    """The temperature of each evaluation among the settings of the round that made it, the next."""
    sampled = {entry.number + 1: entry.temperature for entry in rounds}
    for entry in rounds:
        temperature = sampled.get(entry.number)
        if entry.inputs and temperature is not None:
            used = {**entry.inputs.settings, "evaluation.temperature": temperature}
            entry = replace(entry, inputs=replace(entry.inputs, settings=used))
        yield entry


class _Collector:
    """Gathers round by round; keeps the versions it meets on the way."""

    def __init__(self, federation: Federation, reader: Reader, notes: Notes) -> None:
        storage = federation.spec.storage
        self._federation = federation
        self._prefix = storage.s3.prefix if storage else ""
        self._reader = reader
        self._notes = notes
        self.programs: set[tuple[str, str]] = set()
        self._fallbacks = _MOST_FALLBACKS
        self._reads_all = True
        self.base_model = ""

    def rounds(self) -> tuple[Round, ...]:
        history = sorted(self._federation.status.history, key=lambda entry: entry.round)
        last = history[-1].round if history else 0
        self._reads_all = len(history) * len(self._federation.spec.environments) <= _MOST_INPUTS
        rounds = [self._round(entry, is_last=entry.round == last) for entry in history]
        return tuple(_dated([self._read_temperature(entry) for entry in rounds]))

    def _round(self, entry: HistoryEntry, *, is_last: bool) -> Round:
        read = Round(
            number=entry.round,
            outcome=entry.outcome,
            opened_at=entry.opened_at,
            closed_at=entry.closed_at,
            updates=entry.updates,
            own=entry.own,
            message=entry.message,
            scores=self._collect_scores(entry, is_last=is_last),
        )
        manifest = self._manifest(entry) if _has_made_adapter(entry) else None
        if manifest is not None:
            read = _add_manifest(read, manifest)
        if entry.round == 0:
            return read
        updates = self._updates(read)
        others = {
            n: _parse_part(one.to_json()) for n, one in updates.items() if n not in read.parts
        }
        inputs = _merge_inputs(manifest, updates)
        parts = {n: _add_kinds(one, updates.get(n)) for n, one in {**read.parts, **others}.items()}
        return replace(read, parts=parts, inputs=inputs)

    def _read_temperature(self, entry: Round) -> Round:
        """Every environment samples alike, so one evaluation of each adapter says how."""
        if not entry.scores:
            return entry
        document = self._read_evaluation(min(entry.scores), entry.number)
        return replace(entry, temperature=parse_number(document.temperature)) if document else entry

    def _manifest(self, entry: HistoryEntry) -> GlobalManifest | None:
        key = bucket_keys.global_folder(self._prefix, entry.round) + bucket_keys.MANIFEST
        manifest = self._reader.document(GlobalManifest, key, "facts", f"round {entry.round}")
        if manifest is not None:
            self.programs.add(("global adapter", manifest.program))
            self.base_model = manifest.base_model
        return manifest

    def _collect_scores(self, entry: HistoryEntry, *, is_last: bool) -> dict[str, Score]:
        scores = build_scores(entry, self._federation.spec)
        if entry.round and not _has_made_adapter(entry):
            return scores
        if not is_last and entry.round % self._federation.spec.evaluation.every_rounds:
            return scores
        for environment in self._federation.spec.environments:
            if not scores.get(environment.name, Score(ratio=0)).episodes:
                score = self._read_score(environment.name, entry.round)
                scores.update({environment.name: score} if score else {})
        return scores

    def _read_score(self, environment: str, round_: int) -> Score | None:
        document = self._read_evaluation(environment, round_)
        if document is None or not document.episodes:
            return None
        return Score(
            ratio=min(1.0, document.successes / document.episodes),
            episodes=document.episodes,
            effective=document.effective(),
            noise=compute_noise(self._federation.spec, document.episodes),
        )

    def _read_evaluation(self, environment: str, round_: int) -> EvaluationDocument | None:
        key = bucket_keys.evaluation(self._prefix, environment, round_)
        document = self._reader.document(EvaluationDocument, key, "evaluations", environment)
        if document is not None:
            self.programs.add(("evaluation", document.program))
        return document

    def _updates(self, entry: Round) -> dict[str, UpdateManifest]:
        """Manifests of a round's updates: of its members, and of who answered beside them."""
        updates: dict[str, UpdateManifest] = {}
        names = [environment.name for environment in self._federation.spec.environments]
        for name in sorted(names, key=lambda one: (one not in entry.parts, one)):
            is_member = name in entry.parts
            if is_member and updates and not self._reads_all:
                continue
            if not is_member and self._fallbacks <= 0:
                break
            self._fallbacks -= not is_member
            key = bucket_keys.update_folder(self._prefix, name, entry.number) + bucket_keys.MANIFEST
            manifest = self._reader.document(UpdateManifest, key, "updates", name)
            if manifest is not None:
                self.programs.add(("update", manifest.program))
                updates[name] = manifest
        return updates

    def episodes(
        self, rounds: tuple[Round, ...], private: Mapping[str, ObjectStore]
    ) -> tuple[EpisodePair, ...]:
        pairs = []
        for name in [one.name for one in self._federation.spec.environments[:MOST_PAIRS]]:
            own = [entry.number for entry in rounds if name in entry.parts]
            numbers = own or [entry.number for entry in rounds if entry.number]
            store = private.get(name)
            first = self._episode(name, numbers[0], store) if numbers else None
            last = self._episode(name, numbers[-1], store) if len(numbers) > 1 else None
            if first or last:
                pairs.append(EpisodePair(environment=name, first=first, last=last))
        return tuple(pairs)

    def _episode(
        self, environment: str, round_: int, store: ObjectStore | None
    ) -> ShownEpisode | None:
        storage = self._federation.spec.environment(environment).experience_storage
        if storage is not None and store is None:
            self._notes.add("episodes", environment, "they are in the silo's private store")
            return None
        reader = Reader(store, self._notes) if store is not None else self._reader
        prefix = storage.s3.prefix if storage else self._prefix
        key = bucket_keys.experience_shard(prefix, environment, round_)
        head = reader.get(key, "episodes", environment, limit=shards.HEAD_BYTES)
        if head is None:
            return None
        program = shards.read_version(head)
        self.programs.update({("experience", program)} if program else set())
        episode = shards.read_first_episode(head, round_)
        if episode is None:
            why = f"no episode of shard {round_} could be read"
            self._notes.add("episodes", environment, why)
        return episode


def _add_manifest(entry: Round, manifest: GlobalManifest) -> Round:
    adapter = manifest.files.get(bucket_keys.ADAPTER)
    return replace(
        entry,
        parts={name: _parse_part(given) for name, given in manifest.updates.items()},
        members=tuple(member.environment for member in manifest.members),
        norm=parse_number(manifest.norm),
        server_step=parse_number(manifest.server_step),
        adapter_bytes=adapter.size if adapter else None,
        seconds=parse_seconds(manifest.seconds),
        refused=tuple((one.environment, one.reason) for one in manifest.refused),
    )


def _merge_inputs(
    manifest: GlobalManifest | None, updates: Mapping[str, UpdateManifest]
) -> RoundInputs | None:
    """What a round used: of its clients the first by name, and of its aggregator."""
    inputs = [updates[name].inputs for name in sorted(updates)[:1]]
    inputs += [manifest.inputs] if manifest else []
    used = {
        path: one for each in inputs for path, one in run_settings.flatten_settings(each).items()
    }
    worlds = {
        name: run_settings.flatten_world(one.inputs.get("world"), one.inputs.get("options"))
        for name, one in updates.items()
        if "world" in one.inputs
    }
    return RoundInputs(settings=used, worlds=worlds) if used else None


def _parse_part(given: dict[str, Any]) -> EnvironmentRound:
    counts = given.get("counts")
    counted: dict[str, Any] = counts if isinstance(counts, dict) else {}
    if isinstance(private := given.get("privacy"), dict):  # all else was left out, and is not zero
        return EnvironmentRound(
            **_parse_counts(counted, ("explored", "steps")),
            norm=parse_number(given.get("norm")),
            epsilon=parse_number(private.get("epsilon")),
        )
    return EnvironmentRound(
        **_parse_counts(counted, ("explored", "succeeded", "broken", "experience", "kept")),
        **_parse_counts(counted, ("steps", "tokens", "generated")),
        norm=parse_number(given.get("norm")),
        loss=parse_number(given.get("loss")),
        seconds=parse_seconds(given.get("seconds")),
    )


def _add_kinds(part: EnvironmentRound, update: UpdateManifest | None) -> EnvironmentRound:
    """What only an environment's own manifest says; with privacy it may not, and is not shown."""
    if update is None or update.privacy:
        return part
    groups = update.learning.groups
    return replace(part, kinds={kind: (won, played) for kind, (won, played) in groups.items()})


def _parse_counts(given: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: parse_count(given.get(name)) for name in names}


def _has_made_adapter(entry: HistoryEntry) -> bool:
    """Whether a round made a global adapter; one that a person has undone may have made one."""
    return entry.outcome in MADE or bool(entry.adapter)
