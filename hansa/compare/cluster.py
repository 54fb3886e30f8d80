"""A comparison on a cluster: every run is a Federation, and its result is read from the bucket.

Nothing here waits: the user applies the Federations, the operator and its queue run them, and
results are collected as often as the user likes. Adapters of one silo are not scored in another's
world, as on one machine: on a cluster they never leave their silo.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from hansa.api import constants, job_names
from hansa.api.spec import MAX_FEDERATION_NAME, ExchangeStorage, FederationSpec, SecretName, Storage
from hansa.api.status import Federation
from hansa.compare.collect import Finished, make_empty_result, read_result
from hansa.compare.comparison import CheckedComparison, Run
from hansa.compare.results import RunResult, check_same
from hansa.core.errors import InputError, InvalidDocument
from hansa.store.base import ObjectStore
from hansa.validation.messages import describe_first_misfit

LABEL = f"{constants.GROUP}/comparison"
"""Label of a comparison's Federations, with its name: `kubectl get hfed -l` finds them all."""
MACHINE = "a cluster"
_DIGEST = 6

Data = dict[str, Any]


def make_run_name(wanted: CheckedComparison, run: Run) -> str:
    """A run's name on the cluster, and in its prefix; methods may have letters that it cannot."""
    plain = re.sub(r"[^a-z0-9-]", "-", run.id)
    if plain != run.id:
        plain += f"-{hashlib.sha256(run.id.encode()).hexdigest()[:_DIGEST]}"
    return job_names.fit(f"{wanted.name}-{plain}", MAX_FEDERATION_NAME)


def make_manifests(wanted: CheckedComparison, runs: Sequence[Run]) -> list[Data]:
    """The Federations of these runs, each with a prefix of its own below the manifest's."""
    storage = _require_storage(wanted)
    made = []
    for run in runs:
        if run.unseen:
            raise InputError(
                f"{run.method}: got `without`, and a cluster scores no world that takes no part, "
                "expected a comparison on one machine",
                hint="name the other methods with --only",
            )
        if not run.kind.trains:
            continue
        name = make_run_name(wanted, run)
        prefix = f"{storage.s3.prefix}/{name}" if storage.s3.prefix else name
        place = storage.s3.model_copy(update={"prefix": prefix})
        spec = _set_credentials(run.federation.spec, storage.s3.credentials_secret)
        spec = spec.model_copy(update={"storage": ExchangeStorage(s3=place)})
        made.append(
            {
                "apiVersion": constants.API_VERSION,
                "kind": constants.KIND,
                "metadata": {"name": name, "labels": {LABEL: wanted.name}},
                "spec": spec.to_json(),
            }
        )
    return made


def collect(
    wanted: CheckedComparison,
    runs: Sequence[Run],
    objects: Mapping[str, Data],
    open_store: Callable[[Federation], ObjectStore],
    known: Iterable[RunResult] = (),
) -> tuple[list[tuple[Run, RunResult]], dict[str, str]]:
    """Results of the runs that are over, and of the others why there is none yet.

    `objects`: the namespace's Federations by name; `known`: results that are there already. The
    base model is played by every run before its first round, with the same tasks and random
    seeds: its result is read there.
    """
    results: list[tuple[Run, RunResult]] = []
    missing: dict[str, str] = {}
    for run in runs:
        if not run.kind.trains:
            continue
        document = objects.get(make_run_name(wanted, run))
        why = _explain_missing(run, document)
        if document is None or why:
            missing[run.id] = why
            continue
        federation = _parse_federation(document)
        _check_same(run, federation)
        try:
            status, storage = federation.status, federation.spec.storage
            prefix = storage.s3.prefix if storage else ""
            finished = Finished(run, open_store(federation), prefix, status.round)
            made = read_result(run, finished, status, MACHINE)
        except InvalidDocument as error:
            missing[run.id] = str(error)
            continue
        seconds = _seconds(document, federation)
        results.append((run, made.model_copy(update={"wall_seconds": seconds})))
    for run in runs:
        if not run.kind.trains:
            all_ = [*known, *(one for _, one in results)]
            base = _find_base(run, wanted, [one for one in all_ if one.seed == run.seed])
            if base is None:
                missing[run.id] = "no other run of its seed is over"
            else:
                results.append((run, base))
    return results, missing


def _parse_federation(document: Data) -> Federation:
    try:
        return Federation.model_validate(document)
    except ValidationError as error:
        name = document["metadata"]["name"]
        raise InputError(
            f"{name}: {describe_first_misfit(error)}",
            hint="the operator may be of another version than this program",
        ) from None


def _check_same(run: Run, federation: Federation) -> None:
    """Refuse a Federation that was applied before the comparison changed, or changed since."""
    own = _set_credentials(federation.spec, None)
    spec = own.model_copy(update={"storage": None}).to_json()
    hint = "set the field back, or delete the Federation and what is below its prefix"
    check_same(run, federation.metadata.name, spec, hint)


def _set_credentials(spec: FederationSpec, secret: SecretName | None) -> FederationSpec:
    """The spec whose environments all use that Secret: a comparison has one owner."""
    keys = {"credentials_secret": secret}
    environments = [environment.model_copy(update=keys) for environment in spec.environments]
    return spec.model_copy(update={"environments": environments})


def _seconds(document: Data, federation: Federation) -> float:
    """From its creation to its success."""
    begun = datetime.fromisoformat(document["metadata"]["creationTimestamp"])
    ended = [c.last_transition_time for c in federation.status.conditions if c.type == "Succeeded"]
    return round((ended[0] - begun).total_seconds(), 1) if ended else 0.0


def _find_base(
    run: Run, wanted: CheckedComparison, others: Sequence[RunResult]
) -> RunResult | None:
    for other in others:
        rows = [row for row in other.rows if row.round == 0 and not row.of]
        if {row.environment for row in rows} == wanted.environments.keys():
            own = [row.model_copy(update={"method": run.method}) for row in rows]
            return make_empty_result(run, MACHINE).model_copy(
                update={"rows": own, "base_model": other.base_model}
            )
    return None


def _explain_missing(run: Run, document: Data | None) -> str:
    if document is None:
        return "it is not on the cluster"
    phase = (document.get("status") or {}).get("phase") or "Pending"
    if phase != "Succeeded":
        done = (document.get("status") or {}).get("completed") or 0
        return f"it is {phase}, after {done} of {run.federation.spec.rounds} rounds"
    return ""


def _require_storage(wanted: CheckedComparison) -> Storage:
    if wanted.storage is None:
        raise InputError(
            "spec.storage: got nothing, expected storage.s3 in the federation's manifest: on a "
            "cluster the runs need a bucket"
        )
    return wanted.storage
