"""Rules between fields in CEL, by which the API server refuses what the models refuse.

Each has a sentence that names the field. A rule asks for every field: CEL knows no defaults.
"""

from functools import partial

from hansa.api.constants import RESERVED_ENVIRONMENT_NAMES
from hansa.api.ownership import Owner, get_alias, list_fields
from hansa.api.secure_aggregation import LEAST
from hansa.api.spec import MAX_FEDERATION_NAME, Environment, Metadata
from hansa.api.strategies import BUILTIN, KrumOptions
from hansa.validation.json_schema import flatten_schema

Rule = dict[str, str]
FIXED_IN_MEMBER = (
    *("federation.run", "federation.environment", "world"),
    *("storage.s3.bucket", "storage.s3.prefix"),
)
"""What a silo's letters, read and written, depend on; the bucket's address may change."""


def _make_rule(rule: str, message: str, root: str = "spec") -> Rule:
    """A rule of the object at `root`, about the field that the message begins with."""
    made = {"rule": rule, "message": message}
    field = message.partition(":")[0]
    return {**made, "fieldPath": field.removeprefix(root)} if field.startswith(root) else made


def _make_immutable_rule(field: str, *parts: str, made: str = "federation") -> Rule:
    """An optional field that may neither change nor come or go; of `parts`, only those count."""
    both = f"has(self.{field}) == has(oldSelf.{field})"
    paths = [f"{field}.{part}" for part in parts] or [field]
    same = " && ".join(f"self.{path} == oldSelf.{path}" for path in paths)
    return _make_rule(
        f"{both} && (!has(self.{field}) || ({same}))",
        f"spec.{field}: cannot change after the {made} was made",
    )


_MINIMUM = "self.participation.minimumUpdates"
_AGGREGATION = "self.aggregation"
_ENGINE = "self.exploration.engine"
_FAULTY = f"{_AGGREGATION}.options.faulty"
_KRUM = ", ".join(f"'{name}'" for name, each in BUILTIN.items() if each.options is KrumOptions)
FEDERATION_RULES = (
    _make_immutable_rule("seed"),
    _make_immutable_rule("model", "source"),
    _make_immutable_rule("adapter"),
    # The same bucket may be reached by another address or with other credentials.
    _make_immutable_rule("storage", "s3.bucket", "s3.prefix"),
    _make_immutable_rule("privacy", "unit"),
    _make_rule("self.rounds >= oldSelf.rounds", "spec.rounds: may grow, never shrink"),
    _make_rule(
        f"!has(self.participation) || !has({_MINIMUM}) || {_MINIMUM} <= size(self.environments)",
        "spec.participation.minimumUpdates: expected at most the number of spec.environments",
    ),
    # Letters need a bucket, a key, and a base model that nobody can exchange.
    _make_rule(
        "!self.environments.exists(e, has(e.member)) || "
        "(has(self.exchange) && has(self.storage) && has(self.model.sha256) && "
        "has(self.adapter.shapes))",
        "spec.exchange: with a silo that runs elsewhere, expected exchange, storage, model.sha256 "
        "and adapter.shapes",
    ),
    _make_rule(
        f"!has({_AGGREGATION}) || !has({_AGGREGATION}.strategy) || "
        f"!({_AGGREGATION}.strategy in [{_KRUM}]) || size(self.environments) >= 3 + 2 * "
        f"(has({_AGGREGATION}.options) && has({_FAULTY}) ? {_FAULTY} : {KrumOptions().faulty})",
        "spec.aggregation.options.faulty: krum and multi-krum need 2 x faulty + 3 "
        "spec.environments",
    ),
    _make_rule(
        "!has(self.guard) || (has(self.guard.action) && self.guard.action == 'none') || "
        "!has(self.aggregation) || !has(self.aggregation.strategy) || "
        "self.aggregation.strategy != 'none'",
        "spec.guard: aggregation.strategy none has no global adapter to guard",
    ),
    # Masks are made for each pair of silos, and a sum of two shows both.
    _make_rule(
        "!has(self.aggregation) || !has(self.aggregation.secure) || "
        f"(size(self.environments) >= {LEAST} && self.environments.all(e, has(e.maskingKey)))",
        f"spec.aggregation.secure: expected at least {LEAST} spec.environments, each with its own "
        "maskingKey",
    ),
    # A silo elsewhere names its endpoint in its own manifest.
    _make_rule(
        f"!has(self.exploration) || !has({_ENGINE}) || {_ENGINE} != 'openai' || "
        "self.environments.all(e, has(e.endpoint) || has(e.member))",
        "spec.exploration.engine: with openai, expected an endpoint in every environment",
    ),
    _make_rule(
        "!(has(self.training) && has(self.training.learner) && "
        "self.training.learner != 'success-sft') || "
        "!(has(self.experience) && has(self.experience.filter)) || "
        "self.experience.filter == 'success'",
        "spec.experience.filter: only the learner success-sft can go without, expected success",
    ),
)
"""Rules of a Federation's spec."""


def list_environment_rules() -> list[Rule]:
    """Rules of one environment of it."""
    reserved = ", ".join(f"'{name}'" for name in sorted(RESERVED_ENVIRONMENT_NAMES))
    make_rule = partial(_make_rule, root="spec.environments")
    return [
        make_rule(
            f"!(self.name in [{reserved}])",
            f"spec.environments.name: {reserved} is kept for Hansa itself",
        ),
        make_rule(
            "has(self.member) ? !has(self.world) || self.world == '' : "
            "has(self.world) && self.world != ''",
            "spec.environments.world: expected the world that it plays, or none where member says "
            "that the silo runs elsewhere",
        ),
        *(
            make_rule(
                f"!has(self.member) || !has(self.{field})",
                f"spec.environments.{field}: expected none: a silo with member runs elsewhere",
            )
            for field in _list_silo_fields()
        ),
        make_rule(
            "self.world == oldSelf.world",
            "spec.environments.world: cannot change; give the new world a new name",
        ),
        make_rule(
            "!has(oldSelf.maskingKey) || (has(self.maskingKey) && "
            "self.maskingKey == oldSelf.maskingKey)",
            "spec.environments.maskingKey: cannot change; give the silo a new name",
        ),
    ]


def _list_silo_fields() -> list[str]:
    """What a silo that runs elsewhere sets itself; CEL does not see fields of free form."""
    own = list_fields(Environment, Owner.SILO)
    optional = [name for name in own if Environment.model_fields[name].default is None]
    return sorted(get_alias(Environment, name) for name in optional)


def list_member_rules() -> list[Rule]:
    """Rules of a FederationMember's spec; what it needs beyond `hansa join`, a cluster asks for."""
    digests = ("model.sha256", "adapter.shapes")
    return [
        *(_make_immutable_rule(path, made="member") for path in FIXED_IN_MEMBER),
        _make_rule(
            "has(self.signingSecret)",
            "spec.signingSecret: got nothing, expected the Secret with the silo's own key as "
            "signing.key",
        ),
        _make_rule(
            "has(self.experienceStorage) || has(self.experienceKeySecret)",
            "spec.experienceStorage: got nothing, expected the silo's private store, or "
            "experienceKeySecret: nobody else reads its trajectories",
        ),
        *(
            _make_rule(
                f"has(self.agreed.{path})",
                f"spec.agreed.{path}: got nothing, expected the digest that `hansa model` prints",
            )
            for path in digests
        ),
    ]


def list_name_rules() -> list[Rule]:
    """Rules of any object's name."""
    pattern = flatten_schema(Metadata)["properties"]["name"]["pattern"]
    return [
        _make_rule(
            f"self.metadata.name.size() <= {MAX_FEDERATION_NAME}",
            f"metadata.name: expected at most {MAX_FEDERATION_NAME} characters, "
            "so that Job names have room",
        ),
        _make_rule(
            f"self.metadata.name.matches('{pattern}')",
            "metadata.name: expected lower-case letters, digits and inner dashes",
        ),
    ]
