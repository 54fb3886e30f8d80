"""Settings of the operator: one table, and a sentence for each that does not fit."""

from dataclasses import fields

import pytest

from hansa.core.errors import InputError
from hansa_operator.settings import KINDS, Settings, name_flag, name_variable, parse_settings


def test_every_setting_can_be_read() -> None:
    assert [f.name for f in fields(Settings)] == list(KINDS)


def test_nothing_given_means_the_defaults() -> None:
    assert parse_settings({}) == Settings()


@pytest.mark.parametrize(
    "name, text, value",
    [
        ("namespaces", "silo-a, silo-b,silo-a", ("silo-a", "silo-b")),
        ("resync_seconds", "60", 60),
        ("workers", "8", 8),
        ("client_image", "hansa-client:2", "hansa-client:2"),
        ("server_image", "hansa-server:2", "hansa-server:2"),
        ("image_pull_policy", "Never", "Never"),
        ("client_pod_template", '{"spec": {}}', {"spec": {}}),
        ("server_pod_template", "{}", {}),
        ("allowed_service_accounts", "irsa-*", ("irsa-*",)),
        ("allowed_secrets", "regcred", ("regcred",)),
        ("allowed_priority_classes", "research", ("research",)),
        ("allowed_tolerations", "nvidia.com/gpu", ("nvidia.com/gpu",)),
        ("allowed_runtime_classes", "nvidia", ("nvidia",)),
        ("allowed_schedulers", "volcano", ("volcano",)),
        ("allowed_csi_drivers", "secrets-store.csi.k8s.io", ("secrets-store.csi.k8s.io",)),
        ("allowed_storage_classes", "fast-*", ("fast-*",)),
        ("allowed_annotation_domains", "*.istio.io", ("*.istio.io",)),
        ("secret_consent", "off", "off"),
        ("world_modules", "my_package.envs, other:Env", ("my_package.envs", "other:Env")),
        ("model_cache_claim", "models", "models"),
        ("cluster_autoscaler", "TRUE", True),
        ("job_log", "json", "json"),
        ("metrics_port", "0", 0),
        ("lease_name", "hansa.lease", "hansa.lease"),
        ("lease_namespace", "hansa-system", "hansa-system"),
        ("lease_seconds", "15", 15),
    ],
)
def test_a_setting_comes_from_its_variable_or_its_flag(name, text, value) -> None:
    assert getattr(parse_settings({name_variable(name): text}), name) == value
    assert getattr(parse_settings({}, [name_flag(name), text]), name) == value
    assert getattr(parse_settings({}, [f"{name_flag(name)}={text}"]), name) == value


def test_a_flag_wins_over_a_variable() -> None:
    assert parse_settings({"HANSA_WORKERS": "2"}, ["--workers=3"]).workers == 3


def test_an_empty_variable_is_absent() -> None:
    assert parse_settings({"HANSA_CLIENT_IMAGE": " ", "HANSA_NAMESPACES": ""}) == Settings()


def test_a_variable_that_kubernetes_made_of_a_service_is_no_setting() -> None:
    assert parse_settings({"HANSA_METRICS_PORT": "tcp://10.0.0.7:8080"}) == Settings()


@pytest.mark.parametrize(
    "environ, arguments, sentence",
    [
        (
            {"HANSA_WORKERS": "many"},
            [],
            "HANSA_WORKERS: got 'many', expected a whole number from 1 to 64",
        ),
        (
            {},
            ["--workers", "0"],
            "--workers: got '0', expected a whole number from 1 to 64",
        ),
        (
            {"HANSA_NAMESPACES": "a;b"},
            [],
            "HANSA_NAMESPACES: got 'a;b', expected names, separated by commas",
        ),
        (
            {"HANSA_IMAGE_PULL_POLICY": "always"},
            [],
            "HANSA_IMAGE_PULL_POLICY: got 'always', expected Always or IfNotPresent or Never",
        ),
        (
            {"HANSA_CLIENT_POD_TEMPLATE": "[1]"},
            [],
            "HANSA_CLIENT_POD_TEMPLATE: got '[1]', expected a Pod template as a JSON object",
        ),
        (
            {"HANSA_CLUSTER_AUTOSCALER": "perhaps"},
            [],
            "HANSA_CLUSTER_AUTOSCALER: got 'perhaps', expected true or false",
        ),
        ({}, ["--workes", "3"], "--workes: got an unknown option, expected --workers"),
        ({}, ["--workers"], "--workers: got nothing, expected a whole number from 1 to 64"),
    ],
)
def test_what_does_not_fit_is_named_with_what_fits(environ, arguments, sentence) -> None:
    with pytest.raises(InputError) as refused:
        parse_settings(environ, arguments)
    assert refused.value.message == sentence


def test_a_long_value_is_not_repeated_whole() -> None:
    with pytest.raises(InputError) as refused:
        parse_settings({"HANSA_SERVER_POD_TEMPLATE": "x" * 5000})
    assert len(refused.value.message) < 200
