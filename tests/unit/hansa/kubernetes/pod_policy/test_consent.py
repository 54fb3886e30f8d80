"""Consent of Secrets: which keys a federation needs, and the lines that give them."""

import json
import shlex

import pytest

from hansa.api.spec import Metadata
from hansa.kubernetes.pod_policy import consent
from tests.support.builders import make_federation
from tests.support.masked_updates import FIVE, masked

AUTHORITY = {"caSecret": {"name": "tls", "key": "ca.crt"}}
STORE = {"s3": {"bucket": "bucket", "credentialsSecret": {"name": "all"}, **AUTHORITY}}
MAZE = {"name": "maze", "world": "maze", "credentialsSecret": {"name": "mine"}}


def test_every_party_needs_the_consent_of_its_keys_and_its_authority() -> None:
    spec = make_federation(storage=STORE, environments=[MAZE]).spec
    assert consent.list_secrets(spec, "maze") == ["mine", "tls"]
    assert consent.list_secrets(spec, "") == ["all", "tls"]
    assert consent.build_key("fed", "maze") == "hansa.fed.maze"
    assert consent.build_key("fed", "") == "hansa.fed.aggregator"
    assert consent.list_secrets(make_federation().spec, "maze") == []


def test_a_private_stores_own_secrets_consent_to_its_silo_alone() -> None:
    authority = {"name": "own-tls", "key": "ca.crt"}
    own = {"s3": {"bucket": "own", "credentialsSecret": {"name": "own"}, "caSecret": authority}}
    spec = make_federation(storage=STORE, environments=[{**MAZE, "experienceStorage": own}]).spec
    assert consent.list_secrets(spec, "maze") == ["mine", "own", "tls", "own-tls"]
    assert consent.list_secrets(spec, "") == ["all", "tls"]


def test_an_endpoints_key_consents_to_the_silos_clients_alone() -> None:
    secret = {"name": "turns", "key": "key"}
    endpoint = {"url": "https://turns.example", "server": "vllm", "apiKeySecret": secret}
    spec = make_federation(storage=STORE, environments=[{**MAZE, "endpoint": endpoint}]).spec
    assert consent.list_secrets(spec, "maze") == ["mine", "tls", "turns"]
    assert consent.list_secrets(spec, "maze", signs=True) == ["mine", "tls"]
    assert consent.list_secrets(spec, "") == ["all", "tls"]


def test_one_line_for_each_secret_gives_all_that_is_needed() -> None:
    federation = make_federation(storage=STORE, environments=[MAZE])
    assert consent.list_commands([federation]) == [
        "kubectl patch secret all --type=merge -p "
        """'{"stringData":{"hansa.fed.aggregator":"yes"}}'""",
        "kubectl patch secret tls --type=merge -p "
        """'{"stringData":{"hansa.fed.aggregator":"yes","hansa.fed.maze":"yes"}}'""",
        """kubectl patch secret mine --type=merge -p '{"stringData":{"hansa.fed.maze":"yes"}}'""",
    ]
    elsewhere = federation.model_copy(update={"metadata": Metadata(name="b", namespace="silos")})
    assert len(consent.list_commands([federation, elsewhere])) == 6
    assert consent.list_commands([elsewhere])[0].startswith("kubectl -n silos patch secret all ")


def test_a_namespace_that_the_manifest_names_is_named_even_if_it_is_default() -> None:
    federation = make_federation(storage=STORE, environments=[MAZE])
    named = federation.model_copy(update={"metadata": Metadata(name="fed", namespace="default")})
    unnamed = federation.model_copy(update={"metadata": Metadata(name="fed")})
    assert consent.list_commands([named])[0].startswith("kubectl -n default patch secret all ")
    assert consent.list_commands([unnamed])[0].startswith("kubectl patch secret all ")


@pytest.mark.attack(
    by="the author of a Federation",
    does="names a Secret such that the printed command would run another one",
    result="the names are quoted",
)
def test_a_line_can_be_pasted_whatever_the_names_are() -> None:
    line = consent.format_command("ns", "x'; touch /tmp/owned; '", ["hansa.fed.maze"])
    words = shlex.split(line)
    assert words[:6] == ["kubectl", "-n", "ns", "patch", "secret", "x'; touch /tmp/owned; '"]
    assert json.loads(words[-1]) == {"stringData": {"hansa.fed.maze": "yes"}}


def test_the_key_that_signs_orders_consents_and_silos_elsewhere_need_nothing() -> None:
    key = "ed25519:" + "A" * 43
    federation = make_federation(
        environments=[
            {"name": "maze", "world": "maze"},
            {"name": "clinic", "member": {"publicKeys": [key]}},
        ],
        exchange={"publicKeys": [key], "signingSecret": {"name": "hansa-signing"}},
        model={"sha256": "b" * 64},
        adapter={"shapes": "d" * 64},
    )
    [line] = consent.list_commands([federation])
    assert "hansa-signing" in line and "hansa.fed.aggregator" in line and "clinic" not in line
    assert consent.list_secrets(federation.spec, "") == []
    assert consent.list_secrets(federation.spec, "", signs=True) == ["hansa-signing"]


def test_the_key_that_opens_updates_consents_to_the_aggregator() -> None:
    own = {"experienceStorage": {"s3": {"bucket": "private"}}}
    federation = make_federation(
        environments=[{"name": "maze", "world": "maze", **own}],
        storage={"s3": {"bucket": "shared"}, "sealingSecret": {"name": "hansa-sealing"}},
        aggregation={"sealTo": "x25519:" + "A" * 43},
    )
    [line] = consent.list_commands([federation])
    assert "hansa-sealing" in line and "hansa.fed.aggregator" in line
    assert consent.list_secrets(federation.spec, "") == ["hansa-sealing"]
    assert consent.list_secrets(federation.spec, "", signs=True) == [], "a courier opens nothing"
    assert consent.list_secrets(federation.spec, "maze") == []


def test_a_masking_key_consents_to_its_own_silos_clients_and_to_no_courier() -> None:
    own = [{**each, "maskingSecret": {"name": each["name"]}} for each in masked()["environments"]]
    federation = make_federation(**{**masked(), "environments": own})
    lines = consent.list_commands([federation])
    assert [
        f"secret {name} " in line and f"hansa.fed.{name}" in line
        for name, line in zip(FIVE, lines, strict=True)
    ] == [True] * 5
    assert consent.list_secrets(federation.spec, "a") == ["a"]
    assert consent.list_secrets(federation.spec, "") == []
    assert consent.list_secrets(federation.spec, "a", signs=True) == []
