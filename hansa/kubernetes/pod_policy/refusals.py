"""What the operator makes no Job from: Pod templates, Secrets and assignments that cannot be.

A pure check, so that `hansa validate --cluster` says the same before a cluster has seen anything.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from hansa.api.assignment import ENV_ASSIGNMENT
from hansa.api.jobs import JobRequest
from hansa.api.spec import Environment, FederationSpec, SecretKey
from hansa.api.status import Federation, FederationStatus
from hansa.kubernetes.pod_policy.rules import check
from hansa.kubernetes.pod_policy.shapes import Permit, PodViolation
from hansa.kubernetes.pod_policy.shapes import PodAllowlist as PodAllowlist
from hansa.plan.federation import plan

CLIENT = "client"
"""Container of a client's program."""
CERTIFICATE_ENDINGS = (".crt", ".cer", ".pem")
VARIABLE_LIMIT = 128 * 1024 - len(ENV_ASSIGNMENT) - 2
"""Linux starts no program with a variable longer than 128 KiB, its name and ends included."""


def of_federation(
    federation: Federation, allowed: PodAllowlist, now: datetime
) -> list[PodViolation]:
    """All refusals that an operator would tell of a new federation."""
    if federation.spec.storage is None:
        return [PodViolation(path="spec.storage", got="nothing", expected="storage.s3")]
    requests = _first_requests(federation, now)
    long = [too_long(request, federation.spec) for request in requests]
    return [*of_spec(federation.spec, allowed), *(refusal for refusal in long if refusal)]


def _first_requests(federation: Federation, now: datetime) -> list[JobRequest]:
    """Jobs of the first round, as a plan asks for them."""
    spec = federation.spec.model_copy(update={"suspend": False})
    new = federation.model_copy(update={"spec": spec, "status": FederationStatus()})
    opened = new.model_copy(update={"status": plan(new, [], now).status})
    return plan(opened, [], now).create


def too_long(request: JobRequest, spec: FederationSpec) -> PodViolation | None:
    """The refusal of an assignment that fits into no variable: only options can be that long."""
    text = request.assignment.model_dump_json(by_alias=True, exclude_none=True)
    if len(text.encode()) <= VARIABLE_LIMIT:
        return None
    names = [e.name for e in spec.environments]
    is_of_one = request.environment in names
    where = f"[{names.index(request.environment)}].options" if is_of_one else ""
    return PodViolation(
        path=f"spec.environments{where}",
        got=f"an assignment of {len(text.encode())} bytes",
        expected=f"at most {VARIABLE_LIMIT}",
        environment=request.environment,
    )


def of_spec(spec: FederationSpec, allowed: PodAllowlist) -> list[PodViolation]:
    """Everything in a federation that no Job can be made from, in the order of the manifest."""
    permit = _default_permit(spec, allowed)
    refusals = _certificate(spec.storage.s3.ca_secret if spec.storage else None, "spec.storage.s3")
    refusals += _signing_key(spec)
    refusals += _sealing_key(spec)
    refusals += check(spec.pod_template, permit, "spec.podTemplate")
    for index, environment in enumerate(spec.environments):
        path = f"spec.environments[{index}]"
        if environment.member:
            continue  # its Jobs are made elsewhere
        refusals += _own_keys(spec, environment, path)
        refusals += _private_certificate(environment, path)
        refusals += _masking_key(spec, environment, path)
        mine = _permit(spec, environment, permit)
        refusals += check(environment.pod_template, mine, f"{path}.podTemplate")
    return refusals


def _signing_key(spec: FederationSpec) -> list[PodViolation]:
    """Orders are signed by a key in a Secret, which only couriers get."""
    if not any(e.member for e in spec.environments) or signing_secret(spec):
        return []
    return [
        PodViolation(
            path="spec.exchange.signingSecret",
            got="nothing",
            expected="a Secret with the coordinator's key, as `hansa keys show FILE -o secret` "
            "prints it",
        )
    ]


def signing_secret(spec: FederationSpec) -> str:
    """Secret with the key that signs orders; empty: there is none."""
    secret = spec.exchange.signing_secret if spec.exchange else None
    return secret.name if secret else ""


def _sealing_key(spec: FederationSpec) -> list[PodViolation]:
    """Sealed updates are opened by a key in a Secret, which only aggregators get."""
    if not spec.aggregation.seal_to or sealing_secret(spec):
        return []
    return [
        PodViolation(
            path="spec.storage.sealingSecret",
            got="nothing",
            expected="a Secret with the key that opens what is sealed to aggregation.sealTo, as "
            "`hansa keys show FILE -o secret` prints it",
        )
    ]


def sealing_secret(spec: FederationSpec) -> str:
    """Secret with the key that opens updates; empty: there is none."""
    secret = spec.storage.sealing_secret if spec.storage else None
    return secret.name if secret else ""


def _masking_key(spec: FederationSpec, environment: Environment, path: str) -> list[PodViolation]:
    """A silo's masks follow from a key in a Secret, which only its own clients get."""
    if spec.aggregation.secure is None or environment.masking_secret:
        return []
    fits = (
        "a Secret with the silo's masking key, as `hansa keys show FILE --masking -o secret` "
        "prints it"
    )
    where = f"{path}.maskingSecret"
    return [PodViolation(path=where, got="nothing", expected=fits, environment=environment.name)]


def masking_secret(spec: FederationSpec, environment: str) -> str:
    """Secret with the key that a silo's masks follow from; empty: there is none."""
    secret = spec.environment(environment).masking_secret if environment else None
    return secret.name if secret else ""


def experience_key_secret(spec: FederationSpec, environment: str) -> str:
    """Secret with the key that a silo's experience is sealed to; empty: it is not sealed."""
    secret = spec.environment(environment).experience_key_secret if environment else None
    return secret.name if secret else ""


def stops(refusals: Iterable[PodViolation], environment: str) -> list[PodViolation]:
    """Those that keep one environment's Jobs from being made."""
    return [refusal for refusal in refusals if refusal.environment in ("", environment)]


def credentials_secret(spec: FederationSpec, environment: str) -> str:
    """Secret with the AWS keys of an environment or the aggregator; empty: the default chain.

    An environment never gets the aggregator's, which open every silo's updates.
    """
    own = spec.environment(environment).credentials_secret if environment else None
    shared = spec.storage.s3.credentials_secret if spec.storage else None
    secret = own if environment else shared
    return secret.name if secret else ""


def experience_secret(spec: FederationSpec, environment: str) -> str:
    """Secret with the keys of a silo's private store alone; empty: the silo has one identity."""
    private = spec.environment(environment).experience_storage if environment else None
    own = private.s3.credentials_secret if private else None
    return own.name if own and own.name != credentials_secret(spec, environment) else ""


def endpoint_secret(spec: FederationSpec, environment: str) -> SecretKey | None:
    """The key that an environment's clients show to its endpoint, where it names one."""
    endpoint = spec.environment(environment).endpoint if environment else None
    return endpoint.api_key_secret if endpoint else None


def ca_secret(spec: FederationSpec) -> SecretKey | None:
    """Certificate authority of the exchange."""
    return spec.storage.s3.ca_secret if spec.storage else None


def experience_ca_secret(spec: FederationSpec, environment: str) -> SecretKey | None:
    """Certificate authority of a silo's private store, where it names one."""
    private = spec.environment(environment).experience_storage if environment else None
    return private.s3.ca_secret if private else None


def _default_permit(spec: FederationSpec, allowed: PodAllowlist) -> Permit:
    """The federation's default reaches every silo's Pods, so it may name no silo's Secret."""
    owners: dict[str, str] = {}
    for environment in spec.environments:
        for name in sorted(_secrets(environment)):
            owners.setdefault(name, f"environment {environment.name}")
    if spec.storage and spec.storage.s3.credentials_secret:
        owners[spec.storage.s3.credentials_secret.name] = "spec.storage"
    return Permit(container=CLIENT, is_default=True, foreign=owners, allowed=allowed)


def _permit(spec: FederationSpec, environment: Environment, default: Permit) -> Permit:
    own = {credentials_secret(spec, environment.name), *_secrets(environment)}
    own.discard("")
    name = environment.name
    return replace(default, environment=name, is_default=False, own=frozenset(own))


def _secrets(environment: Environment) -> set[str]:
    private = environment.experience_storage.s3 if environment.experience_storage else None
    named = [environment.credentials_secret, private.credentials_secret if private else None]
    named.append(environment.endpoint.api_key_secret if environment.endpoint else None)
    named += [environment.masking_secret, environment.experience_key_secret]
    return {secret.name for secret in named if secret}


def _own_keys(spec: FederationSpec, environment: Environment, path: str) -> list[PodViolation]:
    """Where the aggregator has keys, each silo has its own: nobody gets another's unsaid."""
    shared = spec.storage.s3.credentials_secret if spec.storage else None
    if shared is None or environment.credentials_secret:
        return []
    fits = f"a Secret with keys of its own ('{shared.name}' of spec.storage is the aggregator's)"
    where = f"{path}.credentialsSecret"
    return [PodViolation(path=where, got="nothing", expected=fits, environment=environment.name)]


def _private_certificate(environment: Environment, path: str) -> list[PodViolation]:
    if environment.experience_storage is None:
        return []
    secret = environment.experience_storage.s3.ca_secret
    where = f"{path}.experienceStorage.s3"
    return [replace(r, environment=environment.name) for r in _certificate(secret, where)]


def _certificate(secret: SecretKey | None, path: str) -> list[PodViolation]:
    """The key of a certificate, lest this field mounts a password of any Secret there is."""
    if secret is None or secret.key.endswith(CERTIFICATE_ENDINGS):
        return []
    fits = f"the key of a certificate, ending in {' or '.join(CERTIFICATE_ENDINGS)}"
    return [PodViolation(path=f"{path}.caSecret.key", got=f"'{secret.key}'", expected=fits)]
