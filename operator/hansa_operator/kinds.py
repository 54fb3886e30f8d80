"""The kinds of objects that the operator serves: how each is read, planned for and described.

A pass is the same for all of them; whatever differs between a Federation and a FederationMember is
said here, once.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

from pydantic import ValidationError

from hansa.api import constants
from hansa.api.jobs import JobRequest, ObservedJob, Plan
from hansa.api.member_status import FederationMember, SiloCondition
from hansa.api.status import BaseCondition, Condition, Federation
from hansa.core.errors import InputError
from hansa.kubernetes import member_view, paths
from hansa.kubernetes.client import Data
from hansa.kubernetes.pod_policy import consent
from hansa.kubernetes.pod_policy.refusals import check_spec
from hansa.kubernetes.pod_policy.shapes import PodAllowlist, PodViolation
from hansa.manifests import load
from hansa.plan.builder import SiloPlan
from hansa.plan.federation import plan
from hansa.plan.member_plan import follow
from hansa.validation import messages

Thing = Federation | FederationMember
AnyPlan = Plan | SiloPlan


class ObjectKind:
    """Federations; another kind of object overrides what differs from them."""

    name = constants.KIND
    """As manifests have it."""
    plural = constants.PLURAL
    """As paths of the API have it."""
    path = staticmethod(paths.federations)
    """Path of its objects in a namespace."""
    label = constants.LABEL_FEDERATION
    """On its Jobs and Pods: whose they are."""
    word = constants.SINGULAR
    """In the operator's log and in sentences."""
    model: ClassVar[type[Thing]] = Federation
    condition: ClassVar[type[BaseCondition]] = Condition
    rejected: ClassVar[tuple[str, ...]] = ("Accepted", "Progressing")
    """Conditions that are False while an object cannot be planned for; the last one also when the
    operator itself has failed."""

    def read(self, thing: Data) -> Thing:
        """An object of the API; an InputError names the field that does not fit.

        The schema of the CRD is looser than the models in a few places, and may be an older one.
        """
        document = {name: value for name, value in thing.items() if value is not None}
        try:
            return self.model.model_validate(document)
        except ValidationError as error:
            rest = {name: value for name, value in document.items() if name != "status"}
            load.validate_model(self.model, rest)  # tells what is wrong with all but the status
            raise InputError(
                f"{messages.describe_first_misfit(error)}; expected what the operator wrote: "
                f"fix it, or delete the {self.word} and apply it again"
            ) from None

    def unfit(self, thing: Any, allowed: PodAllowlist) -> str:
        """Why nothing at all can be done for it on this cluster; empty: something can."""
        return ""

    def plan(self, thing: Any, observed: Sequence[ObservedJob], now: datetime) -> AnyPlan:
        """What to do next for it."""
        return plan(thing, observed, now)

    def as_federation(self, thing: Any) -> Federation:
        """What its Jobs are built from."""
        federation: Federation = thing
        return federation

    def refusals(self, thing: Any, allowed: PodAllowlist) -> list[PodViolation]:
        """Everything in it that no Job can be made from."""
        return check_spec(thing.spec, allowed)

    def own_path(self, path: str) -> str:
        """A field of `as_federation`, as its own manifest has it."""
        return path

    def consent(self, thing: Any, request: JobRequest) -> str:
        """The key by which a Secret lets a Job use it."""
        return consent.build_key(thing.metadata.name, request.environment)

    def waits_since(self, thing: Any, request: JobRequest) -> datetime | None:
        """Since when a Job of it is wanted."""
        current = thing.status.current
        if current is None:
            return None
        clients = {each.name: each for each in current.environments}
        party = clients.get(request.environment, current.aggregator)
        moments = (current.opened_at, current.frozen_at, party.not_before)
        newest: datetime = max(moment for moment in moments if moment)
        return newest

    def moment(self, thing: Any) -> tuple[object, ...]:
        """Its round or order: equal Events of the same one are published once."""
        current = thing.status.current
        return thing.status.round, [e.attempt for e in current.environments] if current else []


class MemberKind(ObjectKind):
    """FederationMembers: silos of this cluster that somebody else coordinates."""

    name, plural, label = constants.MEMBER_KIND, constants.MEMBER_PLURAL, constants.LABEL_MEMBER
    path, word = staticmethod(paths.members), "member"
    model, condition = FederationMember, SiloCondition
    rejected = ("Accepted", "Working")

    def unfit(self, thing: Any, allowed: PodAllowlist) -> str:
        """A silo that could not carry out an order takes none."""
        return "; ".join(refusal.sentence for refusal in self.refusals(thing, allowed))

    def plan(self, thing: Any, observed: Sequence[ObservedJob], now: datetime) -> AnyPlan:
        """What to do next for it."""
        return follow(thing, observed, now)

    def as_federation(self, thing: Any) -> Federation:
        """A federation of this one environment."""
        return member_view.build_federation(thing)

    def refusals(self, thing: Any, allowed: PodAllowlist) -> list[PodViolation]:
        """By the fields of its own manifest."""
        return member_view.list_violations(thing, allowed)

    def own_path(self, path: str) -> str:
        """Without spec.environments[0]."""
        return member_view.translate_path(path)

    def consent(self, thing: Any, request: JobRequest) -> str:
        """Clients and couriers have keys of their own."""
        return consent.build_member_key(thing.metadata.name, signs=request.role == "courier")

    def waits_since(self, thing: Any, request: JobRequest) -> datetime | None:
        """Since the order was taken; a courier waits for nothing."""
        current = thing.status.current
        if current is None or request.role == "courier":
            return None
        moments = [moment for moment in (current.taken_at, current.not_before) if moment]
        return max(moments, default=None)

    def moment(self, thing: Any) -> tuple[object, ...]:
        """The newest order, and the attempt of its Job."""
        current = thing.status.current
        return thing.status.received.serial, current.attempt if current else 0


KINDS: dict[str, ObjectKind] = {kind.name: kind for kind in (ObjectKind(), MemberKind())}


def find_kind(thing: Thing) -> ObjectKind:
    """The kind of an object."""
    return KINDS[thing.kind]
