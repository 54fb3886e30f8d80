"""Names of the Kubernetes API: group, kind, labels, states and reasons, spelled once."""

from typing import Literal

GROUP = "hansa.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "Federation"
PLURAL = "federations"
SINGULAR = "federation"
SHORT_NAME = "hfed"
CATEGORY = "hansa"
MEMBER_KIND = "FederationMember"
"""A silo's part in a federation that somebody else coordinates."""
MEMBER_PLURAL = "federationmembers"
MEMBER_SINGULAR = "federationmember"
MEMBER_SHORT_NAME = "hmem"

RESERVED_ENVIRONMENT_NAMES = frozenset({"aggregator"})
"""Environments cannot have these names: bucket keys and Jobs of Hansa itself do."""

LABEL_FEDERATION = f"{GROUP}/federation"
LABEL_MEMBER = f"{GROUP}/member"
"""On a silo's Jobs, in place of the federation's: the FederationMember that they work for."""
LABEL_ROUND = f"{GROUP}/round"
LABEL_ENVIRONMENT = f"{GROUP}/environment"
LABEL_ATTEMPT = f"{GROUP}/attempt"
LABEL_ROLE = f"{GROUP}/role"

ANNOTATION_RETRY = f"{GROUP}/retry"
"""A value that was not seen before opens the next round after a failed one (`hansa retry`)."""

ANNOTATION_ROLLBACK = f"{GROUP}/rollback"
"""ROUND@TOKEN: a value that was not seen before goes back to that round (`hansa rollback`)."""

ConditionType = Literal["Accepted", "Progressing", "Degraded", "Succeeded"]

MemberConditionType = Literal["Accepted", "Connected", "Working", "Allowed"]

Phase = Literal["Pending", "Running", "Suspended", "Failed", "Succeeded"]

EnvironmentState = Literal[
    "Waiting", "Queued", "Starting", "Running", "Retrying", "Updated", "Empty", "Failed"
]
"""`Updated`: its update counts. `Empty`: it answered, with nothing to learn from yet."""
ANSWERED: frozenset[EnvironmentState] = frozenset({"Updated", "Empty"})
CONCLUDED: frozenset[EnvironmentState] = ANSWERED | {"Failed"}
"""States that no round waits for."""

AcceptedReason = Literal["Valid", "Invalid", "ImmutableFieldChanged"]
ProgressReason = Literal[
    "RoundOpen", "Aggregating", "Evaluating", "Suspended", "TooFewUpdates", "AggregationFailed"
]
PauseReason = Literal[
    "GuardTripped", "OperatorError", "WaitingForMembers", "Closing", "ExchangeFailed", "Finished"
]
HealthReason = Literal[
    "AllHealthy", "ConsentMissing", "EnvironmentFailed", "PrivacyBudgetSpent", "NothingToLearn"
]
IncidentReason = Literal["RolledBack", "VetoOverruled", "MemberAway"]
SucceededReason = Literal["Running", "AllRoundsDone"]
Reason = Literal[
    AcceptedReason, ProgressReason, PauseReason, HealthReason, IncidentReason, SucceededReason
]
"""Reasons of a Federation's conditions: Accepted, Progressing (two), Degraded (two), Succeeded."""

Trouble = Literal[
    "Unreachable", "Denied", "ClockSkewed", "LogReplaced", "Untrusted", "CourierFailed"
]
"""Why a silo can neither post nor read letters."""

ConnectedReason = Literal["NotYet", "Listening", Trouble]
WorkingReason = Literal["NoOrder", "Resting", "Working", "Waiting", "Answered", "JobFailed"]
AllowedReason = Literal["WithinLimits", "Refused"]
SharedReason = Literal["Suspended", "Left", "OperatorError"]
MemberReason = Literal[
    "Valid", "Invalid", ConnectedReason, WorkingReason, AllowedReason, SharedReason
]
"""Reasons of a FederationMember's conditions."""

RoundEvent = Literal["RoundOpened", "JobRetried", "JobFailed", "MembersFrozen", "MaskAgain"]
ResultEvent = Literal[
    "RoundAggregated", "RoundFailed", "RoundEmpty", "RoundApart", "UpdateRefused", "Evaluated"
]
GuardEvent = Literal["RolledBack", "RollbackRefused", "VetoOverruled", "BestKept"]
SpecEvent = Literal["SettingsChanged", "MaybeMisspelled", "NotEncrypted"]
MemberEvent = Literal[
    "MemberJoined", "MemberAway", "MemberLeft", "OrderRefused", "LetterRefused", "Twin"
]
RunEvent = Literal["Suspended", "Resumed", "Succeeded"]
EventReason = Literal[RoundEvent, ResultEvent, GuardEvent, SpecEvent, MemberEvent, RunEvent]
