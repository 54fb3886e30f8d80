"""A silo as a federation of one environment, from which its Jobs are built like any others.

Refusals and consents name the fields of the silo's own manifest.
"""

from collections.abc import Iterator
from dataclasses import replace

from hansa.api.exchange import Exchange
from hansa.api.member_spec import MemberObject, MemberSpec
from hansa.api.spec import Environment, ExchangeStorage, FederationSpec, Participation
from hansa.api.status import Federation
from hansa.kubernetes.pod_policy import consent
from hansa.kubernetes.pod_policy.refusals import MASKING_KEY, SHOWN, check_spec, report_missing
from hansa.kubernetes.pod_policy.shapes import PodAllowlist, PodViolation

_PLACES = (("spec.environments[0]", "spec"), ("spec.exchange.", "spec."))


def build_federation(silo: MemberObject) -> Federation:
    """What Jobs are built from: one environment, whose keys are those of the exchange."""
    spec = silo.spec
    own = Environment(
        name=spec.federation.environment,
        world=spec.world,
        options=spec.options,
        demonstrations_from=spec.demonstrations_from,
        credentials_secret=spec.storage.s3.credentials_secret,
        experience_storage=spec.experience_storage,
        experience_key_secret=spec.experience_key_secret,
        masking_secret=spec.masking_secret,
        endpoint=spec.endpoint,
        pod_template=spec.pod_template,
        queue_name=spec.queue_name,
    )
    exchange = Exchange(
        signing_secret=spec.signing_secret,
        public_keys=spec.public_keys,
        poll_seconds=spec.poll_seconds,
    )
    waits = Participation(
        start_timeout_seconds=spec.start_timeout_seconds,
        round_timeout_seconds=spec.limits.job_seconds,
        retries=spec.retries,
    )
    whole = FederationSpec(
        rounds=spec.agreed.rounds,
        seed=spec.agreed.seed,
        model=spec.agreed.model,
        adapter=spec.agreed.adapter,
        participation=waits,
        storage=ExchangeStorage(s3=spec.storage.s3),
        exchange=exchange,
        environments=[own],
    )
    return Federation(metadata=silo.metadata, spec=whole)


def translate_path(path: str) -> str:
    """Where a FederationMember has what a Federation has there."""
    for there, here in _PLACES:
        path = path.replace(there, here, 1) if path.startswith(there) else path
    return path


def list_violations(silo: MemberObject, allowed: PodAllowlist) -> list[PodViolation]:
    """Everything in a silo that no Job can be made from on a cluster."""
    refused = check_spec(build_federation(silo).spec, allowed)
    return [
        *_list_missing(silo.spec),
        *(replace(each, path=translate_path(each.path)) for each in refused),
    ]


def list_consents(silo: MemberObject) -> list[str]:
    """What the owners of the Secrets that a silo names type; a line for each Secret."""
    spec, name = build_federation(silo).spec, silo.metadata.name
    wanted: dict[str, list[str]] = {}
    for party, signs in ((silo.spec.federation.environment, False), ("", True)):
        for secret in consent.list_secrets(spec, party, signs=signs):
            wanted.setdefault(secret, []).append(consent.build_member_key(name, signs=signs))
    namespace = consent.find_namespace(silo.metadata)
    return [consent.format_command(namespace, secret, keys) for secret, keys in wanted.items()]


def _list_missing(spec: MemberSpec) -> Iterator[PodViolation]:
    """What `hansa join` has on its own machine, and a cluster does not."""
    if spec.experience_storage is None and spec.experience_key_secret is None:
        own = "the silo's private store, or experienceKeySecret: nobody else reads its trajectories"
        yield report_missing("spec.experienceStorage", own)
    if spec.signing_secret is None:
        yield report_missing("spec.signingSecret", f"a Secret with the silo's key, {SHOWN}")
    if spec.agreed.settings.aggregation.secure and spec.masking_secret is None:
        yield report_missing("spec.maskingSecret", MASKING_KEY)
