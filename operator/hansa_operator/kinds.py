"""The kinds of objects that the operator serves: where they stand, how each is planned for.

A pass is the same for all of them; whatever differs between a Federation and a FederationMember is
said here, once.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

from pydantic import ValidationError

from hansa.api import constants
from hansa.api.conditions import BaseCondition
from hansa.api.jobs import JobRequest, ObservedJob, Plan
from hansa.api.member_status import FederationMember, SiloCondition
from hansa.api.status import Condition, Federation
from hansa.core.errors import InputError
from hansa.kubernetes import member_view
from hansa.kubernetes.pod_policy import consent
from hansa.kubernetes.pod_policy.refusals import of_spec
from hansa.kubernetes.pod_policy.shapes import PodAllowlist, PodViolation
from hansa.manifests import load
from hansa.plan.federation import plan
from hansa.plan.member_builder import SiloPlan
from hansa.plan.member_plan import follow
from hansa.validation import messages

Data = dict[str, Any]
Thing = Federation | FederationMember
AnyPlan = Plan | SiloPlan


class ObjectKind(ABC):
    """One kind of object."""

    name: ClassVar[str]
    """As manifests have it."""
    plural: ClassVar[str]
    """As paths of the API have it."""
    label: ClassVar[str]
    """On its Jobs and Pods: whose they are."""
    word: ClassVar[str]
    """In the operator's log and in sentences."""
    model: ClassVar[type[Thing]]
    condition: ClassVar[type[BaseCondition]]
    rejected: ClassVar[tuple[str, ...]]
    """Conditions that are False while an object cannot be planned for; the last one also when the
    operator itself has failed."""

    def path(self, namespace: str) -> str:
        """Where its objects of a namespace are."""
        return f"/apis/{constants.API_VERSION}/namespaces/{namespace}/{self.plural}"

    def read(self, thing: Data) -> Thing:
        """An object of the API; an InputError names the field that does not fit.

        The schema of the CRD is looser than the models in a few places, and may be an older one.
        """
        document = {name: value for name, value in thing.items() if value is not None}
        try:
            return self.model.model_validate(document)
        except ValidationError as error:
            rest = {name: value for name, value in document.items() if name != "status"}
            load.fit(self.model, rest)  # tells what is wrong with all but the status
            raise InputError(
                f"{messages.first_misfit(error)}; expected what the operator wrote: fix it, or "
                f"delete the {self.word} and apply it again"
            ) from None

    def unfit(self, thing: Any, allowed: PodAllowlist) -> str:
        """Why nothing at all can be done for it on this cluster; empty: something can."""
        return ""

    @abstractmethod
    def plan(self, thing: Any, observed: Sequence[ObservedJob], now: datetime) -> AnyPlan:
        """What to do next for it."""

    @abstractmethod
    def as_federation(self, thing: Any) -> Federation:
        """What its Jobs are built from."""

    @abstractmethod
    def refusals(self, thing: Any, allowed: PodAllowlist) -> list[PodViolation]:
        """Everything in it that no Job can be made from."""

    @abstractmethod
    def own_path(self, path: str) -> str:
        """A field of `as_federation`, as its own manifest has it."""

    @abstractmethod
    def consent(self, thing: Any, request: JobRequest) -> str:
        """The key by which a Secret lets a Job use it."""

    @abstractmethod
    def waits_since(self, thing: Any, request: JobRequest) -> datetime | None:
        """Since when a Job of it is wanted."""

    @abstractmethod
    def moment(self, thing: Any) -> tuple[object, ...]:
        """Where it stands: equal Events of one moment are published once."""


class _Federations(ObjectKind):
    name, plural, label = constants.KIND, constants.PLURAL, constants.LABEL_FEDERATION
    word = "federation"
    model, condition = Federation, Condition
    rejected = ("Accepted", "Progressing")

    def plan(self, thing: Federation, observed: Sequence[ObservedJob], now: datetime) -> AnyPlan:
        return plan(thing, observed, now)

    def as_federation(self, thing: Federation) -> Federation:
        return thing

    def refusals(self, thing: Federation, allowed: PodAllowlist) -> list[PodViolation]:
        return of_spec(thing.spec, allowed)

    def own_path(self, path: str) -> str:
        return path

    def consent(self, thing: Federation, request: JobRequest) -> str:
        return consent.key(thing.metadata.name, request.environment)

    def waits_since(self, thing: Federation, request: JobRequest) -> datetime | None:
        current = thing.status.current
        if current is None:
            return None
        clients = {each.name: each for each in current.environments}
        party = clients.get(request.environment, current.aggregator)
        moments = (current.opened_at, current.frozen_at, party.not_before)
        return max(moment for moment in moments if moment)

    def moment(self, thing: Federation) -> tuple[object, ...]:
        current = thing.status.current
        return thing.status.round, [e.attempt for e in current.environments] if current else []


class _Members(ObjectKind):
    name, plural, label = constants.MEMBER_KIND, constants.MEMBER_PLURAL, constants.LABEL_MEMBER
    word = "member"
    model, condition = FederationMember, SiloCondition
    rejected = ("Accepted", "Working")

    def unfit(self, thing: FederationMember, allowed: PodAllowlist) -> str:
        # Whoever could not carry out an order had better take none.
        return "; ".join(refusal.sentence for refusal in self.refusals(thing, allowed))

    def plan(
        self, thing: FederationMember, observed: Sequence[ObservedJob], now: datetime
    ) -> AnyPlan:
        return follow(thing, observed, now)

    def as_federation(self, thing: FederationMember) -> Federation:
        return member_view.as_federation(thing)

    def refusals(self, thing: FederationMember, allowed: PodAllowlist) -> list[PodViolation]:
        return member_view.refusals(thing, allowed)

    def own_path(self, path: str) -> str:
        return member_view.own_path(path)

    def consent(self, thing: FederationMember, request: JobRequest) -> str:
        return consent.member_key(thing.metadata.name, signs=request.role == "courier")

    def waits_since(self, thing: FederationMember, request: JobRequest) -> datetime | None:
        current = thing.status.current
        if current is None or request.role == "courier":
            return None
        moments = [moment for moment in (current.taken_at, current.not_before) if moment]
        return max(moments, default=None)

    def moment(self, thing: FederationMember) -> tuple[object, ...]:
        current = thing.status.current
        return thing.status.received.serial, current.attempt if current else 0


KINDS: dict[str, ObjectKind] = {kind.name: kind for kind in (_Federations(), _Members())}


def of(thing: Thing) -> ObjectKind:
    """The kind of an object."""
    return KINDS[thing.kind]
