"""Why a Pod does not run, in a sentence: whether it waits, or can never start as it is."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from hansa.api.jobs import FailureReason
from hansa.core.sanitize import sanitize
from hansa.kubernetes.client import Data
from hansa.kubernetes.pod_policy import consent
from hansa.kubernetes.state import find_condition, get_status

CONSENT_VOLUME = "hansa-consent"
"""Its items are keys by which Secrets let a party use them; the kubelet demands each."""

SHOWN = 500
"""Characters of Kubernetes' own words that a sentence repeats."""


class Delay(NamedTuple):
    """What keeps a Pod from running."""

    why: str
    """A sentence."""
    forever: bool = False
    """Whether nothing but another Job can change it."""
    reason: FailureReason = ""
    """What a plan has to know about it."""


IMAGE_REASONS = (
    *("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"),
    *("ImageInspectError", "SignatureValidationFailed"),
)
_CONFIG_REASONS = frozenset({"CreateContainerConfigError", "CreateContainerError"})
_PASSING = re.compile(
    r"time(d )?out|deadline exceeded|connection (refused|reset)|no such host|\bEOF\b"
    r"|too ?many ?requests|QPS exceeded|server misbehaving|network is unreachable|no route to host"
    r"|service unavailable|bad gateway|internal server error|context canceled|already reserved",
    re.IGNORECASE,
)
"""A registry or runtime that may answer the next time; a start timeout ends the wait."""
_NEVER = re.compile(
    r'(secret|configmap|serviceaccount|runtimeclass) "[^"]*" not found'
    r"|references non-existent (secret|config) key|violates PodSecurity|no PriorityClass with name",
    re.IGNORECASE,
)
_NO_CONSENT = re.compile(
    rf"references non-existent secret key: (?P<key>{re.escape(consent.PREFIX)}[a-z0-9.-]+)"
)
_MISSING_CLAIM = re.compile(r'persistentvolumeclaim "[^"]*" not found')
_NO_MATCH = re.compile(r"didn't match Pod's node affinity/selector")
# Kubernetes 1.36 names the taint no more ("taint(s)"): one of a node that starts would look alike.
_TAINT = re.compile(r"had untolerated taint \{(?!node\.(cloudprovider\.)?kubernetes\.io/)")


def explain_delay(
    pod: Data, events: Iterable[Data] = (), *, cluster_autoscaler: bool = False, spare: str = ""
) -> Delay:
    """Why this Pod does not run yet, by its containers, the scheduler or, at last, its events."""
    kinds = ("initContainerStatuses", "containerStatuses")  # sidecars start first
    containers = (each for kind in kinds for each in get_status(pod).get(kind) or ())
    if waits := next(filter(None, map(_explain_container, containers)), None):
        return waits
    scheduled = find_condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        return _explain_scheduler(scheduled, cluster_autoscaler)
    all_events = list(events)
    waits = explain_by_events(all_events) or Delay(spare or "its Pod is being prepared")
    return _explain_missing_consent(pod, all_events) or waits


def find_true_condition(thing: Data, *types: str) -> Data | None:
    """The first of these conditions that holds."""
    for type_ in types:
        held = find_condition(thing, type_)
        if held.get("status") == "True":
            return held
    return None


def clip(text: object) -> str:
    """A message of Kubernetes or a Pod: on one line, shortened, without control characters."""
    line = sanitize(" ".join(str(text or "").split()))
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"


def explain_by_events(events: Iterable[Data]) -> Delay | None:
    """What the newest warning says; missing volumes and refused Pods show nowhere else."""
    warnings = [e for e in events if e.get("type") == "Warning" and e.get("message")]
    if not warnings:
        return None
    newest = max(warnings, key=lambda e: str(e.get("lastTimestamp") or e.get("eventTime") or ""))
    words = clip(newest["message"])
    return Delay(f"{newest.get('reason', 'Warning')}: {words}", bool(_NEVER.search(words)))


def _explain_missing_consent(pod: Data, events: Iterable[Data]) -> Delay | None:
    """Where the kubelet misses a Secret's consent: what its owner types to give it.

    The kubelet looks for it again after at most two minutes, and says other things too.
    """
    words = [str(e.get("message") or "") for e in events if e.get("type") == "Warning"]
    missed = next(filter(None, map(_NO_CONSENT.search, words)), None)
    if missed is None:
        return None
    metadata, volumes = pod.get("metadata") or {}, (pod.get("spec") or {}).get("volumes") or ()
    sources = [
        (source.get("secret") or {}).get("name") or ""
        for volume in volumes
        if volume.get("name") == CONSENT_VOLUME
        for source in (volume.get("projected") or {}).get("sources") or ()
    ]
    lines = [
        consent.format_command(str(metadata.get("namespace") or ""), name, [missed["key"]])
        for name in sources
    ]
    named = " or ".join(sources)
    why = f"Secret {named} does not consent to this use; its owner consents by: {' ; '.join(lines)}"
    return Delay(why, reason="ConsentMissing")


def _explain_container(container: Data) -> Delay | None:
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason, words = waiting.get("reason") or "", clip(waiting.get("message"))
    who, image = container.get("name"), container.get("image") or ""
    if reason in IMAGE_REASONS:
        # Some versions leave the cause out while they back off; it is back with the next try.
        unclear = reason == "ImagePullBackOff" and ": " not in words
        why = f"image '{image}' of container {who} cannot be pulled ({reason}: {words})"
        return Delay(why, not unclear and not _PASSING.search(words))
    if reason in _CONFIG_REASONS:
        return Delay(f"container {who} cannot be made ({words})", not _PASSING.search(words))
    if reason == "CrashLoopBackOff":
        return Delay(f"sidecar {who} crashes again and again ({words})")
    return None


def _explain_scheduler(scheduled: Data, cluster_autoscaler: bool) -> Delay:
    """A busy GPU is waited for; a selector that fits no node fails at once."""
    words = " ".join(str(scheduled.get("message") or "").split())
    if scheduled.get("reason") == "SchedulingGated":
        return Delay("its Pod is held back by a scheduling gate")
    head = words.split(". ")[0].rstrip(".")
    if _MISSING_CLAIM.search(head):
        return Delay(f"its Pod cannot be scheduled ({head})", forever=True)
    _, _, causes = head.partition("nodes are available: ")
    never = bool(causes) and all(
        _NO_MATCH.search(cause) or _TAINT.search(cause) for cause in causes.split(", ")
    )
    if never and not cluster_autoscaler:
        return Delay(f"no node fits its nodeSelector, affinity and tolerations ({head})", True)
    return Delay(f"waits for a node ({head or 'no reason was given'})")
