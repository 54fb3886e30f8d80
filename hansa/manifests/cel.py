"""Rules between fields in CEL, by which the API server refuses what the models refuse.

Each has a sentence that names the field. A rule asks for every field: CEL knows no defaults.
"""

from hansa.api.aggregation import KRUM
from hansa.api.secure_aggregation import LEAST
from hansa.api.spec import MAX_FEDERATION_NAME, RESERVED_ENVIRONMENT_NAMES, Metadata
from hansa.validation.json_schema import flat

Rule = dict[str, str]
FIXED_IN_MEMBER = (
    *("federation.run", "federation.environment", "world"),
    *("storage.s3.bucket", "storage.s3.prefix"),
)
"""What a silo's letters, read and written, depend on; the bucket's address may change."""

OWN_OF_A_MEMBER = (
    *("demonstrationsFrom", "credentialsSecret", "experienceStorage", "endpoint"),
    *("experienceKeySecret", "maskingSecret"),
)
"""What an environment has no value for once it runs elsewhere, as far as CEL can tell."""


def _rule(rule: str, message: str, field: str = "") -> Rule:
    made = {"rule": rule, "message": message}
    return {**made, "fieldPath": field} if field else made


def _immutable(field: str, *parts: str, made: str = "federation") -> Rule:
    """An optional field that may neither change nor come or go; of `parts`, only those count."""
    both = f"has(self.{field}) == has(oldSelf.{field})"
    paths = [f"{field}.{part}" for part in parts] or [field]
    same = " && ".join(f"self.{path} == oldSelf.{path}" for path in paths)
    return _rule(
        f"{both} && (!has(self.{field}) || ({same}))",
        f"spec.{field}: cannot change after the {made} was made",
        f".{field}",
    )


def of_federation() -> list[Rule]:
    """Rules of a Federation's spec."""
    minimum = "self.participation.minimumUpdates"
    return [
        _immutable("seed"),
        _immutable("model", "source"),
        _immutable("adapter"),
        # The same bucket may be reached by another address or with other credentials.
        _immutable("storage", "s3.bucket", "s3.prefix"),
        _immutable("privacy", "unit"),
        _rule("self.rounds >= oldSelf.rounds", "spec.rounds: may grow, never shrink", ".rounds"),
        _rule(
            f"!has(self.participation) || !has({minimum}) || {minimum} <= size(self.environments)",
            "spec.participation.minimumUpdates: expected at most the number of spec.environments",
            ".participation.minimumUpdates",
        ),
        _exchange_rule(),
        _krum_rule(),
        _guard_rule(),
        _secure_rule(),
        _engine_rule(),
        _filter_rule(),
    ]


def _exchange_rule() -> Rule:
    """Letters need a bucket, a key, and a base model that nobody can exchange."""
    return _rule(
        "!self.environments.exists(e, has(e.member)) || "
        "(has(self.exchange) && has(self.storage) && has(self.model.sha256) && "
        "has(self.adapter.shapes))",
        "spec.exchange: with a silo that runs elsewhere, expected exchange, storage, model.sha256 "
        "and adapter.shapes",
        ".exchange",
    )


def _krum_rule() -> Rule:
    """Krum needs enough members; every field is asked for, since CEL knows no defaults."""
    ours = "self.aggregation"
    chosen = ", ".join(f"'{name}'" for name in sorted(KRUM))
    return _rule(
        f"!has({ours}) || !has({ours}.strategy) || !has({ours}.faulty) || "
        f"!({ours}.strategy in [{chosen}]) || size(self.environments) >= 2 * {ours}.faulty + 3",
        "spec.aggregation.faulty: krum and multi-krum need 2 x faulty + 3 spec.environments",
        ".aggregation.faulty",
    )


def _guard_rule() -> Rule:
    """Without a global adapter there is nothing to guard."""
    return _rule(
        "!has(self.guard) || (has(self.guard.action) && self.guard.action == 'none') || "
        "!has(self.aggregation) || !has(self.aggregation.strategy) || "
        "self.aggregation.strategy != 'none'",
        "spec.guard: aggregation.strategy none has no global adapter to guard",
        ".guard",
    )


def _secure_rule() -> Rule:
    """Masks are made for each pair of silos, and a sum of two shows both."""
    return _rule(
        "!has(self.aggregation) || !has(self.aggregation.secure) || "
        f"(size(self.environments) >= {LEAST} && self.environments.all(e, has(e.maskingKey)))",
        f"spec.aggregation.secure: expected at least {LEAST} spec.environments, each with its own "
        "maskingKey",
        ".aggregation.secure",
    )


def _engine_rule() -> Rule:
    """Who is to ask endpoints has one; a silo elsewhere says so itself."""
    engine = "self.exploration.engine"
    return _rule(
        f"!has(self.exploration) || !has({engine}) || {engine} != 'openai' || "
        "self.environments.all(e, has(e.endpoint) || has(e.member))",
        "spec.exploration.engine: with openai, expected an endpoint in every environment",
        ".exploration.engine",
    )


def _filter_rule() -> Rule:
    """The filter belongs to one learner alone."""
    filtered = "has(self.experience) && has(self.experience.filter)"
    is_other = (
        "has(self.training) && has(self.training.learner) && self.training.learner != 'success-sft'"
    )
    return _rule(
        f"!({is_other}) || !({filtered}) || self.experience.filter == 'success'",
        "spec.experience.filter: only the learner success-sft can go without, expected success",
        ".experience.filter",
    )


def of_environment() -> list[Rule]:
    """Rules of one environment of it."""
    reserved = ", ".join(f"'{name}'" for name in sorted(RESERVED_ENVIRONMENT_NAMES))
    return [
        _rule(
            f"!(self.name in [{reserved}])",
            f"spec.environments.name: {reserved} is kept for Hansa itself",
            ".name",
        ),
        _rule(
            "has(self.member) ? !has(self.world) || self.world == '' : "
            "has(self.world) && self.world != ''",
            "spec.environments.world: expected the world that it plays, or none where member says "
            "that the silo runs elsewhere",
            ".world",
        ),
        *(
            _rule(
                f"!has(self.member) || !has(self.{field})",
                f"spec.environments.{field}: expected none: a silo with member runs elsewhere",
                f".{field}",
            )
            for field in OWN_OF_A_MEMBER
        ),
        _rule(
            "self.world == oldSelf.world",
            "spec.environments.world: cannot change; give the new world a new name",
            ".world",
        ),
        _rule(
            "!has(oldSelf.maskingKey) || (has(self.maskingKey) && "
            "self.maskingKey == oldSelf.maskingKey)",
            "spec.environments.maskingKey: cannot change; give the silo a new name",
            ".maskingKey",
        ),
    ]


def of_member() -> list[Rule]:
    """Rules of a FederationMember's spec; what it needs beyond `hansa join`, a cluster asks for."""
    digests = ("model.sha256", "adapter.shapes")
    return [
        *(_immutable(path, made="member") for path in FIXED_IN_MEMBER),
        _rule(
            "has(self.signingSecret)",
            "spec.signingSecret: got nothing, expected the Secret with the silo's own key as "
            "signing.key",
            ".signingSecret",
        ),
        _rule(
            "has(self.experienceStorage) || has(self.experienceKeySecret)",
            "spec.experienceStorage: got nothing, expected the silo's private store, or "
            "experienceKeySecret: nobody else reads its trajectories",
            ".experienceStorage",
        ),
        *(
            _rule(
                f"has(self.agreed.{path})",
                f"spec.agreed.{path}: got nothing, expected the digest that `hansa model` prints",
                f".agreed.{path}",
            )
            for path in digests
        ),
    ]


def of_name() -> list[Rule]:
    """Rules of any object's name."""
    pattern = flat(Metadata)["properties"]["name"]["pattern"]
    return [
        _rule(
            f"self.metadata.name.size() <= {MAX_FEDERATION_NAME}",
            f"metadata.name: expected at most {MAX_FEDERATION_NAME} characters, "
            "so that Job names have room",
        ),
        _rule(
            f"self.metadata.name.matches('{pattern}')",
            "metadata.name: expected lower-case letters, digits and inner dashes",
        ),
    ]
