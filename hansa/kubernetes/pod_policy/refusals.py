"""What keeps the operator from making Jobs: refused Pod templates, Secrets and assignments.

A pure check, so that `hansa validate --cluster` says the same before a cluster has seen anything.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from hansa.api.assignment import ENV_ASSIGNMENT
from hansa.api.jobs import JobRequest
from hansa.api.spec import Environment, FederationSpec, SecretKey
from hansa.api.status import Federation, FederationStatus
from hansa.kubernetes.pod_policy.party_secrets import PartySecrets, find_party_secrets
from hansa.kubernetes.pod_policy.rules import check
from hansa.kubernetes.pod_policy.shapes import Permit, PodViolation
from hansa.kubernetes.pod_policy.shapes import PodAllowlist as PodAllowlist
from hansa.plan.federation import plan

CLIENT = "client"
"""Container of a client's program."""
CERTIFICATE_ENDINGS = (".crt", ".cer", ".pem")
SHOWN = "as `hansa keys show FILE -o secret` prints it"
MASKING_KEY = (
    "a Secret with the silo's masking key, as `hansa keys show FILE --masking -o secret` prints it"
)
VARIABLE_LIMIT = 128 * 1024 - len(ENV_ASSIGNMENT) - 2
"""Linux starts no program with a variable longer than 128 KiB, its name and ends included."""


def check_federation(
    federation: Federation, allowed: PodAllowlist, now: datetime
) -> list[PodViolation]:
    """All refusals that an operator would tell of a new federation."""
    if federation.spec.storage is None:
        return [PodViolation(path="spec.storage", got="nothing", expected="storage.s3")]
    requests = _first_requests(federation, now)
    long = [check_length(request, federation.spec) for request in requests]
    return [*check_spec(federation.spec, allowed), *(refusal for refusal in long if refusal)]


def _first_requests(federation: Federation, now: datetime) -> list[JobRequest]:
    """Jobs of the first round, as a plan asks for them."""
    spec = federation.spec.model_copy(update={"suspend": False})
    new = federation.model_copy(update={"spec": spec, "status": FederationStatus()})
    opened = new.model_copy(update={"status": plan(new, [], now).status})
    return plan(opened, [], now).create


def check_length(request: JobRequest, spec: FederationSpec) -> PodViolation | None:
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


def check_spec(spec: FederationSpec, allowed: PodAllowlist) -> list[PodViolation]:
    """Everything in a federation that no Job can be made from, in the order of the manifest."""
    permit = _default_permit(spec, allowed)
    server = find_party_secrets(spec, "")
    refusals = [
        *_check_certificate(server.ca, "spec.storage.s3"),
        *_check_server_keys(spec, server),
    ]
    refusals += check(spec.pod_template, permit, "spec.podTemplate")
    for index, environment in enumerate(spec.environments):
        if environment.member:
            continue  # its Jobs are made elsewhere
        refused = _check_silo(spec, environment, permit, f"spec.environments[{index}]")
        refusals += [replace(each, environment=environment.name) for each in refused]
    return refusals


def _check_silo(
    spec: FederationSpec, environment: Environment, default: Permit, path: str
) -> Iterator[PodViolation]:
    own, shared = find_party_secrets(spec, environment.name), find_party_secrets(spec, "")
    if shared.credentials and not own.credentials:
        whose = f"'{shared.credentials}' of spec.storage is the aggregator's"
        yield report_missing(
            f"{path}.credentialsSecret", f"a Secret with keys of its own ({whose})"
        )
    yield from _check_certificate(own.experience_ca, f"{path}.experienceStorage.s3")
    if spec.aggregation.secure and not own.masking:
        yield report_missing(f"{path}.maskingSecret", MASKING_KEY)
    permit = replace(default, is_default=False, own=frozenset(own.names()))
    yield from check(environment.pod_template, permit, f"{path}.podTemplate")


def report_missing(path: str, expected: str) -> PodViolation:
    """The refusal of a field that has to be there."""
    return PodViolation(path=path, got="nothing", expected=expected)


def _check_server_keys(spec: FederationSpec, server: PartySecrets) -> Iterator[PodViolation]:
    """The coordinator's keys: only couriers get the one, and only aggregators the other."""
    if any(e.member for e in spec.environments) and not server.signing:
        signs = "a Secret with the coordinator's key"
        yield report_missing("spec.exchange.signingSecret", f"{signs}, {SHOWN}")
    if spec.aggregation.seal_to and not server.sealing:
        opens = "a Secret with the key that opens what is sealed to aggregation.sealTo"
        yield report_missing("spec.storage.sealingSecret", f"{opens}, {SHOWN}")


def select_violations(refusals: Iterable[PodViolation], environment: str) -> list[PodViolation]:
    """Those that keep one environment's Jobs from being made."""
    return [refusal for refusal in refusals if refusal.environment in ("", environment)]


def _default_permit(spec: FederationSpec, allowed: PodAllowlist) -> Permit:
    """The federation's default reaches every silo's Pods, so it may name no silo's Secret."""
    owners: dict[str, str] = {}
    for environment in spec.environments:
        for name in sorted(find_party_secrets(spec, environment.name).names()):
            owners.setdefault(name, f"environment {environment.name}")
    server = find_party_secrets(spec, "")
    for name in server.names():
        owners[name] = "spec.exchange" if name == server.signing else "spec.storage"
    return Permit(container=CLIENT, is_default=True, foreign=owners, allowed=allowed)


def _check_certificate(secret: SecretKey | None, path: str) -> list[PodViolation]:
    """Only keys of certificates, so that this field cannot mount a password of any Secret."""
    if secret is None or secret.key.endswith(CERTIFICATE_ENDINGS):
        return []
    fits = f"the key of a certificate, ending in {' or '.join(CERTIFICATE_ENDINGS)}"
    return [PodViolation(path=f"{path}.caSecret.key", got=f"'{secret.key}'", expected=fits)]
