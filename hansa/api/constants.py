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
"""States that no round waits for any more."""

Reason = Literal[
    # Accepted
    "Valid",
    "Invalid",
    "ImmutableFieldChanged",
    # Progressing
    "RoundOpen",
    "Aggregating",
    "Evaluating",
    "Suspended",
    "TooFewUpdates",
    "AggregationFailed",
    "GuardTripped",
    "OperatorError",
    "WaitingForMembers",
    "Closing",
    "ExchangeFailed",
    "Finished",
    # Degraded
    "AllHealthy",
    "ConsentMissing",
    "EnvironmentFailed",
    "PrivacyBudgetSpent",
    "NothingToLearn",
    "RolledBack",
    "VetoOverruled",
    "MemberAway",
    # Succeeded
    "Running",
    "AllRoundsDone",
]

Trouble = Literal[
    "Unreachable", "Denied", "ClockSkewed", "LogReplaced", "Untrusted", "CourierFailed"
]
"""Why a silo's letters can be neither posted nor read."""

MemberReason = Literal[
    # Accepted
    "Valid",
    "Invalid",
    # Connected
    "NotYet",
    "Listening",
    "Unreachable",
    "Denied",
    "ClockSkewed",
    "LogReplaced",
    "Untrusted",
    "CourierFailed",
    # Working
    "NoOrder",
    "Resting",
    "Working",
    "Waiting",
    "Answered",
    "JobFailed",
    # Allowed
    "WithinLimits",
    "Refused",
    # of several
    "Suspended",
    "Left",
    "OperatorError",
    "OperatorError",
]

EventReason = Literal[
    "RoundOpened",
    "JobRetried",
    "JobFailed",
    "MembersFrozen",
    "MaskAgain",
    "RoundAggregated",
    "RoundFailed",
    "RoundEmpty",
    "RoundApart",
    "UpdateRefused",
    "Evaluated",
    "RolledBack",
    "RollbackRefused",
    "VetoOverruled",
    "BestKept",
    "SettingsChanged",
    "MaybeMisspelled",
    "NotEncrypted",
    "MemberJoined",
    "MemberAway",
    "MemberLeft",
    "OrderRefused",
    "LetterRefused",
    "Twin",
    "Suspended",
    "Resumed",
    "Succeeded",
]
