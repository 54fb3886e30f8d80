"""Checks of a spec that need several fields at once; each raises ValueError with a field's path."""

from hansa.api import privacy_checks, probes, strategies
from hansa.api.constants import RESERVED_ENVIRONMENT_NAMES
from hansa.api.ownership import Owner, get_alias, list_fields
from hansa.api.secure_aggregation import LEAST, UNREAD
from hansa.api.spec_fields import Environment, SpecFields


def check(spec: SpecFields) -> None:
    """Refuse a spec whose fields do not fit together."""
    first: dict[str, int] = {}
    for index, environment in enumerate(spec.environments):
        where = f"environments[{index}].name"
        if environment.name in RESERVED_ENVIRONMENT_NAMES:
            raise ValueError(f"{where}: got '{environment.name}', which Hansa keeps for itself")
        if environment.name in first:
            raise ValueError(
                f"{where}: got '{environment.name}' a second time "
                f"(first at environments[{first[environment.name]}]), expected unique names"
            )
        first[environment.name] = index
        _check_place(environment, f"environments[{index}]")
    _check_exchange(spec)
    _check_endpoints(spec)
    minimum = spec.participation.minimum_updates
    if minimum is not None and minimum > len(spec.environments):
        raise ValueError(
            f"participation.minimumUpdates: got {minimum}, expected 1 to "
            f"{len(spec.environments)} (spec.environments has {len(spec.environments)} entries)"
        )
    spec.aggregation.check_step()
    spec.aggregation.check_members(len(spec.environments))
    probes.check(spec.probes or [], spec.guard, spec.aggregation.strategy)
    _check_guard(spec)
    spec.aggregation.check_sealing(
        [
            bool(e.member or e.experience_storage or e.experience_key_secret)
            for e in spec.environments
        ]
    )
    _check_secure(spec)
    if spec.evaluation.alone and spec.aggregation.strategy == "none":
        raise ValueError(
            "evaluation.alone: got true, and with aggregation.strategy none every silo is "
            "alone already, expected false or another strategy"
        )
    spec.training.check_exploration(
        spec.exploration.tasks_per_round,
        spec.exploration.samples_per_task,
        spec.experience.filter,
    )
    privacy_checks.check(spec)


def _check_place(environment: Environment, where: str) -> None:
    """Refuse fields of a remote silo that its owner sets, and a local silo without a world."""
    if environment.member is None:
        if not environment.world:
            raise ValueError(
                f"{where}.world: got nothing, expected the world that it plays, or member for "
                "a silo that runs elsewhere"
            )
        return
    for field in list_fields(Environment, Owner.SILO):
        if getattr(environment, field):
            path = f"{where}.{get_alias(Environment, field)}"
            raise ValueError(
                f"{path}: got a value, expected none: a silo with member runs "
                "elsewhere, and its owner says so in its FederationMember"
            )


def _check_exchange(spec: SpecFields) -> None:
    remote = next((e.name for e in spec.environments if e.member), None)
    if remote is None:
        return
    needed = {
        "exchange": spec.exchange,
        "storage": spec.storage,
        "model.sha256": spec.model.sha256,
        "adapter.shapes": spec.adapter.shapes,
    }
    for path, value in needed.items():
        if value is None:
            raise ValueError(
                f"{path}: got nothing, expected a value, since {remote} runs elsewhere"
            )


def _check_endpoints(spec: SpecFields) -> None:
    """With engine openai every local silo has an endpoint; a remote one checks its own."""
    if spec.exploration.engine != "openai":
        return
    for index, environment in enumerate(spec.environments):
        if environment.endpoint is None and environment.member is None:
            raise ValueError(
                f"environments[{index}].endpoint: got nothing, expected the silo's own server, "
                "since exploration.engine is openai"
            )


def _check_guard(spec: SpecFields) -> None:
    if not spec.guarded:
        return
    if spec.aggregation.strategy == "none":
        raise ValueError(
            "guard: got one, and aggregation.strategy none has no global adapter to guard, "
            "expected another strategy or no guard"
        )
    if not spec.evaluation.count_validation_tasks(guarded=True):
        raise ValueError(
            "evaluation.validationTasks: got 0, by which a guard can judge nothing, "
            "expected at least 1 or none given"
        )


def _check_secure(spec: SpecFields) -> None:
    """Refuse what cannot be done with sums alone, or would give an update away beside its masks."""
    if spec.aggregation.secure is None:
        return
    _check_strategy(spec)
    _check_members(spec)
    _check_keys(spec)
    _check_places(spec)


def _check_strategy(spec: SpecFields) -> None:
    aggregation = spec.aggregation
    entry = strategies.entry(aggregation.strategy)
    if not entry.is_sum:
        sums = ", ".join(name for name, each in strategies.BUILTIN.items() if each.is_sum)
        raise ValueError(
            f"aggregation.strategy: got {aggregation.strategy}, expected one of {sums} with "
            "aggregation.secure: the others look at each update"
        )
    if aggregation.server_step == "auto":
        raise ValueError(
            "aggregation.serverStep: got auto, expected a number with aggregation.secure: auto "
            "compares the updates with one another"
        )
    if aggregation.seal_to:
        raise ValueError(
            "aggregation.sealTo: got a key, expected none with aggregation.secure: masked updates "
            "are unreadable already, for the aggregator, too"
        )
    read = {"aggregation": aggregation, "aggregation.options": aggregation.read(entry.options)}
    bounds = [
        (f"{place}.{field.alias}", getattr(model, name), field.default)
        for place, model in read.items()
        for name, field in type(model).model_fields.items()
        if name in UNREAD
    ]
    for path, came, default in bounds:
        if came != default:
            raise ValueError(
                f"{path}: got {came:g}, expected none given with aggregation.secure: nobody sees "
                "one update alone; secure.clipNorm bounds them all"
            )


def _check_members(spec: SpecFields) -> None:
    counts = {
        "environments": len(spec.environments),
        "participation.minimumUpdates": spec.participation.minimum_updates,
    }
    for path, number in counts.items():
        if number is not None and number < LEAST:
            raise ValueError(
                f"{path}: got {number}, expected at least {LEAST} with aggregation.secure: of a "
                "sum of two, each knows the other's part"
            )


def _check_keys(spec: SpecFields) -> None:
    first: dict[str, str] = {}
    for index, environment in enumerate(spec.environments):
        where, key = f"environments[{index}].maskingKey", environment.masking_key
        if key is None:
            raise ValueError(
                f"{where}: got nothing, expected the silo's public key with aggregation.secure, "
                "as `hansa keys show FILE` prints it"
            )
        if key in first:
            raise ValueError(
                f"{where}: got the key of {first[key]}, expected another: every silo has its own"
            )
        first[key] = environment.name


def _check_places(spec: SpecFields) -> None:
    if spec.storage is None:
        raise ValueError(
            "storage: got nothing, expected a store with aggregation.secure: the one that `hansa "
            "run` starts would hold the updates of all silos unmasked, too"
        )
    shared = (spec.storage.s3.endpoint, spec.storage.s3.bucket)
    for index, environment in enumerate(spec.environments):
        if environment.member:
            continue  # its owner sets this in the FederationMember
        where, private = f"environments[{index}].experienceStorage", environment.experience_storage
        if private is None:
            raise ValueError(
                f"{where}: got nothing, expected a store of the silo's own with "
                "aggregation.secure: its update lies there unmasked"
            )
        if (private.s3.endpoint, private.s3.bucket) == shared:
            raise ValueError(
                f"{where}.s3.bucket: got {private.s3.bucket}, where updates are exchanged, "
                "expected another bucket or endpoint with aggregation.secure: its update lies "
                "there unmasked"
            )
