"""An order that asks for anything but what was agreed is refused, unless a limit lets it."""

import copy
from typing import Any

import pytest
from pydantic import ValidationError

from hansa.api.assignment import Assignment
from hansa.api.letters import PATHS
from hansa.api.member_status import SiloUsage
from hansa.api.ownership import Owner, list_paths
from hansa.api.status import RoundSettings
from hansa.members.limits import judge
from hansa.validation.json_schema import find_field, flatten_schema
from tests.support.members import AGREED, member, order

FRESH = SiloUsage()
PRIVACY = ("settings", "privacy")
SECURE = ("settings", "aggregation", "secure")


def paths(document: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(document, dict):
        return [path]
    return [leaf for key, value in document.items() for leaf in paths(value, (*path, key))]


def schema_paths(schema: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Fields of a schema, also those that are absent by default."""
    fields = schema.get("properties")
    if not fields:
        return [path]
    return [leaf for key, field in fields.items() for leaf in schema_paths(field, (*path, key))]


def others(value: Any, schema: dict[str, Any]) -> list[Any]:
    """Values that may fit a field beside the one it has."""
    numbers = [schema.get("minimum"), schema.get("maximum"), 0.5, 1, 2, 3]
    return [
        *(schema.get("enum") or []),
        *(kind.get("const") for kind in schema.get("anyOf", [])),
        *(number for number in numbers if number is not None),
        *([not value] if isinstance(value, bool) else [True, False]),
        *("f" * 64, "path:/x", ["q_proj"], ["stop"], "auto", "x25519:" + "A" * 43, {"size": 5}),
        [{"name": "memory", "texts": ["Once."]}],
    ]


LEAVES = [
    path
    for part in ("seed", "model", "adapter", "settings")
    for path in schema_paths(find_field(flatten_schema(Assignment), (part,)), (part,))
    if path != ("settings", "experience", "demonstrationsFrom") and "options" not in path
]
"""Options depend on the strategy or learner beside them, and have a test of their own."""


def changed(path: tuple[str, ...]) -> Assignment | None:
    """The order with another value in one field; None: nothing else fits there."""
    document = order().to_json()
    spot = document
    if path[:2] == PRIVACY:  # it comes as a whole
        document["settings"]["privacy"] = {"epsilon": 8.0, "delta": 1e-5}
    for part in path[:-1]:
        spot = spot.setdefault(part, {})
    before = spot.get(path[-1])
    for value in others(before, find_field(flatten_schema(Assignment), path)):
        if value is None or value == before:
            continue
        spot[path[-1]] = value
        try:
            made = Assignment.model_validate(copy.deepcopy(document))
        except ValidationError:
            continue
        if made != order():
            return made
    return None


UNREAD = set(list_paths(Assignment, Owner.AGGREGATOR))


@pytest.mark.attack(
    by="the coordinator",
    does="asks for more than was agreed, in any field",
    result="refused with the field's path; nothing is loaded",
)
@pytest.mark.parametrize("path", LEAVES, ids=".".join)
def test_any_field_that_differs_from_what_was_agreed_is_refused_by_its_path(path) -> None:
    other = changed(path)
    assert other is not None, "no other value was found for this field: teach others() one"
    refusal = judge(other, member(), FRESH)
    if ".".join(path) in UNREAD:
        assert refusal is None
        return
    assert refusal is not None
    wholes = (each for each in (PRIVACY, SECURE) if path[: len(each)] == each)
    differing = next(wholes, path)  # nobody has agreed to any
    assert (refusal.code, refusal.path) == ("differs", ".".join(differing))
    assert {refusal.path, ".".join(path)} <= PATHS, "a letter could not name it"


def test_every_field_of_an_order_says_who_decides_it() -> None:
    for model in (Assignment, RoundSettings):
        for name, field in model.model_fields.items():
            owners = [each for each in field.metadata if isinstance(each, Owner)]
            assert len(owners) == 1, f"{model.__name__}.{name}: mark it with an Owner"


def test_an_order_as_agreed_is_allowed() -> None:
    assert judge(order(), member(), FRESH) is None
    assert judge(order(role="evaluate", round=3), member(), FRESH) is None


@pytest.mark.attack(
    by="the coordinator",
    does="asks for an unsealed update or for moments of inputs, where neither was agreed",
    result="refused",
)
@pytest.mark.parametrize(
    "aggregation, path",
    [
        ({"strategy": "regmean"}, "strategy"),
        ({"strategy": "svd"}, "strategy"),
        ({"sealTo": "x25519:" + "A" * 43}, "sealTo"),
    ],
)
def test_what_clients_read_of_the_merge_is_as_agreed_unless_the_owner_frees_it(
    aggregation: dict[str, Any], path: str
) -> None:
    other = order(settings={"aggregation": aggregation})
    refusal = judge(other, member(), FRESH)
    assert refusal is not None
    assert (refusal.code, refusal.path) == ("differs", f"settings.aggregation.{path}")
    assert judge(other, member(limits={"free": ["settings.aggregation"]}), FRESH) is None


SEALED = {"aggregation": {"sealTo": "x25519:" + "A" * 43}}
PRIVATE = {"privacy": {"epsilon": 8.0, "delta": 1e-5}}


@pytest.mark.attack(
    by="the coordinator",
    does="asks for an unsealed update or for moments of inputs, where neither was agreed",
    result="refused",
)
@pytest.mark.parametrize(
    "agreed, settings, path",
    [
        (SEALED, {}, "settings.aggregation.sealTo"),
        (
            SEALED,
            {"aggregation": {"sealTo": "x25519:" + "B" * 42 + "A"}},
            "settings.aggregation.sealTo",
        ),
        (PRIVATE, {}, "settings.privacy"),
        (PRIVATE, {"privacy": {"epsilon": 80.0, "delta": 1e-5}}, "settings.privacy.epsilon"),
    ],
)
def test_a_protection_that_was_agreed_on_stays_however_free_the_settings_are(
    agreed: dict[str, Any], settings: dict[str, Any], path: str
) -> None:
    silo = member(agreed={**AGREED, "settings": agreed}, limits={"free": ["settings"]})
    refusal = judge(order(settings=settings), silo, FRESH)
    assert refusal is not None
    assert refusal.code == "differs" and refusal.path.startswith(path)


MASKED: dict[str, Any] = {"aggregation": {"secure": {"clipNorm": 1.0}}}
PEERS = {
    name: "x25519:" + letter * 43
    for name, letter in zip(("clinic", "lab", "ward"), "AEI", strict=True)
}
OWN = dict.fromkeys(PEERS, "x25519:" + "M" * 43)


@pytest.mark.attack(
    by="the coordinator",
    does=(
        "orders a silo elsewhere to mask with other keys, too few silos, or again where the "
        "round was to fail"
    ),
    result="the silo refuses",
)
@pytest.mark.parametrize(
    "masking, path",
    [
        pytest.param(None, "masking", id="without masks"),
        pytest.param({"peers": {**OWN, "clinic": PEERS["clinic"]}}, "masking.peers", id="own keys"),
        pytest.param({"peers": {**PEERS, "mine": OWN["lab"]}}, "masking.peers", id="one more"),
        pytest.param(
            {"peers": {name: PEERS[name] for name in ("clinic", "lab")}}, "masking.peers", id="two"
        ),
        pytest.param(
            {"peers": {**{n: k for n, k in PEERS.items() if n != "clinic"}}},
            "masking.peers",
            id="without the silo",
        ),
    ],
)
def test_masks_are_against_the_silos_of_the_invitation_alone(masking: Any, path: str) -> None:
    silo = member(agreed={**AGREED, "settings": MASKED, "maskingKeys": PEERS})
    refusal = judge(order(settings=MASKED, masking=masking), silo, FRESH)
    assert refusal is not None
    assert refusal.path == path and path in PATHS


@pytest.mark.attack(
    by="the coordinator",
    does=(
        "orders a silo elsewhere to mask with other keys, too few silos, or again where the "
        "round was to fail"
    ),
    result="the silo refuses",
)
def test_a_second_sum_of_fewer_silos_is_refused_where_the_round_was_to_fail() -> None:
    secure = {"aggregation": {"secure": {"onDropout": "fail"}}}
    four = {**PEERS, "home": "x25519:" + "Q" * 43}
    silo = member(agreed={**AGREED, "settings": secure, "maskingKeys": four})
    again = order(settings=secure, masking={"epoch": 1, "peers": PEERS})
    refusal = judge(again, silo, FRESH)
    assert refusal is not None
    assert (refusal.path, refusal.fits) == ("masking.epoch", "0, since onDropout is fail")
    remask = {"aggregation": {"secure": {"onDropout": "remask"}}}
    silo = member(agreed={**AGREED, "settings": remask, "maskingKeys": four})
    allowed = order(settings=remask, masking={"epoch": 1, "peers": PEERS})
    assert judge(allowed, silo, FRESH) is None
    more = member(
        agreed={**AGREED, "settings": remask, "maskingKeys": four}, limits={"minimumPeers": 4}
    )
    assert judge(allowed, more, FRESH) is not None


@pytest.mark.attack(
    by="the coordinator",
    does="orders a silo elsewhere to send its update without the agreed masks",
    result="the silo refuses",
)
@pytest.mark.parametrize(
    "settings, path",
    [
        pytest.param({}, "settings.aggregation.secure", id="without"),
        pytest.param(
            {"aggregation": {"secure": {"clipNorm": 100.0}}},
            "settings.aggregation.secure.clipNorm",
            id="with a longer change",
        ),
    ],
)
def test_masks_that_were_agreed_on_stay_however_free_the_rest_of_merging_is(
    settings: dict[str, Any], path: str
) -> None:
    agreed = {**AGREED, "settings": MASKED, "maskingKeys": PEERS}
    silo = member(agreed=agreed, limits={"free": ["settings.aggregation"]})
    masking = {"peers": PEERS}
    assert judge(order(settings=MASKED, masking=masking), silo, FRESH) is None
    strategy = {"aggregation": {**MASKED["aggregation"], "strategy": "ffa"}}
    assert judge(order(settings=strategy, masking=masking), silo, FRESH) is None
    refusal = judge(order(settings=settings, masking=masking), silo, FRESH)
    assert refusal is not None
    assert (refusal.code, refusal.path) == ("differs", path)
    assert path in PATHS


def test_options_of_a_builtin_strategy_are_as_agreed() -> None:
    ours, theirs = (
        {"aggregation": {"strategy": "trimmed-mean", "options": {"trim": trim}}}
        for trim in (0.2, 0.3)
    )
    refusal = judge(
        order(settings=theirs),
        member(agreed={**AGREED, "settings": ours}),
        FRESH,
    )
    assert refusal is not None
    assert (refusal.code, refusal.path) == ("differs", "settings.aggregation.options")


def test_of_a_plug_ins_options_a_letter_names_the_field_and_never_a_key() -> None:
    agreed = {**AGREED, "settings": {"training": {"learner": "mine", "options": {"size": 5}}}}
    other = order(settings={"training": {"learner": "mine", "options": {"size": 6}}})
    refusal = judge(other, member(agreed=agreed), FRESH)
    assert refusal is not None
    assert (refusal.code, refusal.path) == ("differs", "settings.training.options")
    free = member(agreed=agreed, limits={"free": ["settings.training.options"]})
    assert judge(other, free, FRESH) is None


MOST = {"most": {"settings.exploration.tasksPerRound": 128}}


@pytest.mark.parametrize("tasks, code", [(64, None), (128, None), (129, "most"), (0, None)])
def test_a_number_may_be_up_to_its_limit_whatever_was_agreed(tasks, code) -> None:
    refusal = judge(
        order(settings={"exploration": {"tasksPerRound": tasks}}), member(limits=MOST), FRESH
    )
    assert (refusal.code if refusal else None) == code


def test_a_limit_below_what_was_agreed_counts() -> None:
    refusal = judge(
        order(), member(limits={"most": {"settings.exploration.tasksPerRound": 8}}), FRESH
    )
    assert str(refusal) == "settings.exploration.tasksPerRound: got 64, allowed at most 8"


def test_a_limited_field_that_an_order_leaves_out_must_have_been_agreed_so() -> None:
    agreed = {**AGREED, "settings": {"evaluation": {"validationTasks": 10}}}
    bound = member(agreed=agreed, limits={"most": {"settings.evaluation.validationTasks": 20}})
    refusal = judge(order(), bound, FRESH)
    assert refusal is not None
    assert (refusal.code, refusal.came) == ("differs", "nothing")


@pytest.mark.parametrize("learner, code", [("reward-weighted", None), ("once", "only")])
def test_a_field_may_be_one_of_a_list(learner, code) -> None:
    only = {"only": {"settings.training.learner": ["success-sft", "reward-weighted"]}}
    refusal = judge(order(settings={"training": {"learner": learner}}), member(limits=only), FRESH)
    assert (refusal.code if refusal else None) == code


@pytest.mark.parametrize(
    "change, path",
    [
        ({"federation": "six"}, "federation"),
        ({"environment": "other"}, "environment"),
        ({"storage": {"bucket": "elsewhere", "prefix": "five"}}, "storage.bucket"),
        ({"storage": {"bucket": "shared", "prefix": "six"}}, "storage.prefix"),
        ({"role": "aggregator"}, "role"),
        ({"world": "maze"}, "world"),
        ({"options": {"size": 9}}, "options"),
        ({"demonstrations_from": "/etc/passwd"}, "demonstrationsFrom"),
        ({"experience_storage": {"bucket": "theirs"}}, "experienceStorage"),
        ({"endpoint": {"url": "https://theirs", "server": "vllm"}}, "endpoint"),
        ({"model_from": "path:/theirs"}, "modelFrom"),
        ({"own_manifest": "e" * 64}, "ownManifest"),
    ],
)
def test_an_order_for_others_or_of_what_is_the_silos_own_affair_is_refused(change, path) -> None:
    refusal = judge(order(**change), member(), FRESH)
    assert refusal is not None
    assert (refusal.code, refusal.path) == ("place", path)
    assert path in PATHS, "a letter could not name it"


def test_a_shared_file_of_demonstrations_is_no_part_of_the_agreement() -> None:
    other = order(settings={"experience": {"demonstrationsFrom": "/etc/passwd"}})
    assert judge(other, member(), FRESH) is None


def test_a_silos_own_number_of_demonstrations_is_as_agreed() -> None:
    refusal = judge(order(demonstrations=400), member(), FRESH)
    assert refusal is not None
    assert (refusal.code, refusal.path) == ("differs", "demonstrations")
    agreed = member(agreed={**AGREED, "demonstrations": 4})
    assert judge(order(demonstrations=4), agreed, FRESH) is None
    assert judge(order(), agreed, FRESH) is not None
