"""Pod templates of a federation: which are refused, and how the others merge into a Job's Pod.

The operator's defaults come first, then the federation's, then the environment's; the later wins.
Lists whose entries have names are merged by name, tolerations are added, mappings merge by key.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from hansa.spec import S3, Environment, FederationSpec, SecretKey
from hansa.status import Federation
from hansa_operator.podrules import check
from hansa_operator.podshapes import Permit, Refusal
from hansa_operator.settings import Settings, variable

CLIENT = "client"
SERVER = "server"
CERTIFICATE_ENDINGS = (".crt", ".cer", ".pem")
_ALL = ("*",)

Data = dict[str, Any]
Join = Callable[[Any, Any], Any]


# -- refusals -------------------------------------------------------------------------------------


def refusals(federation: Federation, settings: Settings) -> list[Refusal]:
    """Everything in a federation that no Job can be made from, in the order of the manifest."""
    spec = federation.spec
    permit = _default_permit(spec, settings)
    found = _certificate(spec.storage.s3.ca_secret if spec.storage else None, "spec.storage.s3")
    found += check(spec.pod_template, permit, "spec.podTemplate")
    for index, environment in enumerate(spec.environments):
        path = f"spec.environments[{index}]"
        found += _one_identity(spec, environment, path)
        mine = _permit(spec, environment, permit)
        found += check(environment.pod_template, mine, f"{path}.podTemplate")
    return found


def settings_refusals(settings: Settings) -> list[Refusal]:
    """What is wrong with the operator's own templates; the allow-lists do not bind them."""
    rows = (("client_pod_template", CLIENT), ("server_pod_template", SERVER))
    return [
        refusal
        for name, container in rows
        for refusal in check(
            getattr(settings, name),
            Permit(container=container, secrets=_ALL, service_accounts=_ALL),
            variable(name),
        )
    ]


def stops(found: Iterable[Refusal], environment: str) -> list[Refusal]:
    """Those that keep one environment's Jobs from being made."""
    return [refusal for refusal in found if refusal.environment in ("", environment)]


def credentials_secret(spec: FederationSpec, environment: str) -> str:
    """Secret with the AWS keys of an environment or the aggregator; empty: the default chain."""
    own = spec.environment(environment).credentials_secret if environment else None
    shared = spec.storage.s3.credentials_secret if spec.storage else None
    secret = own or shared
    return secret.name if secret else ""


def ca_secret(spec: FederationSpec, environment: str) -> SecretKey | None:
    """Certificate authority of the stores that a Job reaches; refusals() saw that there is one."""
    private = spec.environment(environment).experience_storage if environment else None
    shared = spec.storage.s3.ca_secret if spec.storage else None
    return shared or (private.s3.ca_secret if private else None)


def _default_permit(spec: FederationSpec, settings: Settings) -> Permit:
    """The federation's default reaches every silo's Pods, so it may name no silo's Secret."""
    owners: dict[str, str] = {}
    for environment in spec.environments:
        for name in sorted(_secrets(environment)):
            owners.setdefault(name, f"environment {environment.name}")
    if spec.storage and spec.storage.s3.credentials_secret:
        owners[spec.storage.s3.credentials_secret.name] = "spec.storage"
    return Permit(
        container=CLIENT,
        foreign=owners,
        secrets=settings.allowed_secrets,
        service_accounts=settings.allowed_service_accounts,
    )


def _permit(spec: FederationSpec, environment: Environment, default: Permit) -> Permit:
    own = {credentials_secret(spec, environment.name), *_secrets(environment)}
    return replace(default, environment=environment.name, own=frozenset(own - {""}))


def _secrets(environment: Environment) -> set[str]:
    private = environment.experience_storage.s3 if environment.experience_storage else None
    named = [environment.credentials_secret, private.credentials_secret if private else None]
    return {secret.name for secret in named if secret}


def _one_identity(spec: FederationSpec, environment: Environment, path: str) -> list[Refusal]:
    """A client has one pair of keys and one certificate file for both of its stores."""
    if environment.experience_storage is None:
        return []
    private: S3 = environment.experience_storage.s3
    where = f"{path}.experienceStorage.s3"
    found = [
        replace(r, environment=environment.name) for r in _certificate(private.ca_secret, where)
    ]
    keys = credentials_secret(spec, environment.name)
    theirs = private.credentials_secret
    if theirs and theirs.name != keys:
        fits = f"{keys or 'nothing'}, as credentialsSecret (a client has one identity)"
        found.append(_differs(f"{where}.credentialsSecret.name", theirs.name, fits, environment))
    authority = ca_secret(spec, environment.name)
    if private.ca_secret and private.ca_secret != authority and authority:
        fits = f"{authority.name}, as spec.storage.s3.caSecret (a client has one bundle)"
        name = private.ca_secret.name
        found.append(_differs(f"{where}.caSecret.name", name, fits, environment))
    return found


def _differs(path: str, came: str, fits: str, environment: Environment) -> Refusal:
    return Refusal(path=path, got=f"'{came}'", expected=fits, environment=environment.name)


def _certificate(secret: SecretKey | None, path: str) -> list[Refusal]:
    """The key of a certificate, lest this field mounts a password of any Secret there is."""
    if secret is None or secret.key.endswith(CERTIFICATE_ENDINGS):
        return []
    fits = f"the key of a certificate, ending in {' or '.join(CERTIFICATE_ENDINGS)}"
    return [Refusal(path=f"{path}.caSecret.key", got=f"'{secret.key}'", expected=fits)]


# -- merging --------------------------------------------------------------------------------------


def merge(base: Data, templates: Iterable[Mapping[str, Any]]) -> Data:
    """The Pod template with the others above it; they were checked before."""
    merged = base
    for template in templates:
        merged = _TEMPLATE_JOIN(merged, _without_nulls(template))
    return merged


def _without_nulls(value: Any) -> Any:
    """Null stands for absent, as in Kubernetes: it takes nothing away."""
    if isinstance(value, Mapping):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(entry) for entry in value]
    return value


def _later(old: Any, new: Any) -> Any:
    return new


def _deep(old: Data, new: Data) -> Data:
    """Mappings merge at every depth; what is no mapping is replaced."""
    joined = dict(old)
    for key, value in new.items():
        both = isinstance(value, dict) and isinstance(joined.get(key), dict)
        joined[key] = _deep(joined[key], value) if both else value
    return joined


def _added(old: list[Any], new: list[Any]) -> list[Any]:
    return [*old, *(entry for entry in new if entry not in old)]


def _by(key: str, join: Join = _later) -> Join:
    """Lists as mappings: entries with the same key are joined, in the order of their first."""

    def joined(old: list[Data], new: list[Data]) -> list[Data]:
        known = {entry.get(key): entry for entry in old}
        for entry in new:
            name = entry.get(key)
            known[name] = join(known[name], entry) if name in known else entry
        return list(known.values())

    return joined


def _table(joins: Mapping[str, Join]) -> Join:
    """A mapping whose fields are joined as the table says; the later wins where it is silent."""

    def joined(old: Data, new: Data) -> Data:
        result = dict(old)
        for key, value in new.items():
            join = joins.get(key, _later)
            result[key] = join(result[key], value) if key in result else value
        return result

    return joined


_CONTAINER_JOIN = _table(
    {
        "env": _by("name"),
        "envFrom": _added,
        "resources": _deep,
        "securityContext": _deep,
        "volumeMounts": _by("mountPath"),
    }
)
_TEMPLATE_JOIN = _table(
    {
        "metadata": _deep,
        "spec": _table(
            {
                "containers": _by("name", _CONTAINER_JOIN),
                "imagePullSecrets": _by("name"),
                "initContainers": _by("name", _CONTAINER_JOIN),
                "nodeSelector": _deep,
                "resourceClaims": _by("name"),
                "securityContext": _deep,
                "tolerations": _added,
                "volumes": _by("name"),
            }
        ),
    }
)
