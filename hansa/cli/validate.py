"""`hansa validate`: what is wrong with a manifest, or what it would do."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hansa.cli import target
from hansa.cli.common import Format, Output, print_data, say
from hansa.core.errors import InputError

if TYPE_CHECKING:
    from hansa.api.member_spec import MemberObject
    from hansa.api.spec import FederationSpec
    from hansa.api.status import Federation
    from hansa.kubernetes.pod_policy.shapes import PodViolation


def validate(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Manifest of a federation or of a silo, or - for stdin."
        ),
    ],
    output: Output = Format.TABLE,
    cluster: Annotated[
        bool,
        typer.Option(
            "--cluster",
            help="Check what the operator refuses: Pod templates, Secrets; not this machine's "
            "worlds and model folders.",
        ),
    ] = False,
) -> None:
    """Check a manifest; exit code 2 and one sentence when something is wrong.

    -o yaml and -o json print the manifest with all defaults.
    """
    from hansa.api.status import Federation
    from hansa.manifests.load import load_either

    thing = load_either(file, here=not cluster)
    if not isinstance(thing, Federation):
        shown = _check_member(thing, cluster=cluster)
    else:
        if cluster:
            check_for_cluster(thing)
            say_consents([thing])
        for note in list_notes(thing):
            say(f"note: {note}")
        shown = summarize(thing)
    if output is Format.TABLE:
        print(f"{file}: valid, {shown}")
        return
    document = thing.to_json()
    document.pop("status", None)
    document["metadata"] = {
        k: v for k, v in document["metadata"].items() if v and k != "generation"
    }
    print_data(document, output)


def _check_member(silo: "MemberObject", *, cluster: bool) -> str:
    """Check a silo's manifest and say what it would do."""
    from hansa.kubernetes import member_view
    from hansa.kubernetes.pod_policy.refusals import PodAllowlist
    from hansa.plan.policy import advice

    if cluster:
        refused, anyhow = (
            member_view.list_violations(silo, allowed)
            for allowed in (PodAllowlist(), PodAllowlist.everything())
        )
        _refuse(refused, assumed=refused != anyhow)
        _say_lines(member_view.list_consents(silo))
    for note in advice.find_unencrypted(member_view.build_federation(silo).spec):
        say(f"note: {member_view.translate_path(note)}")
    return _summarize_member(silo)


def _summarize_member(silo: "MemberObject") -> str:
    """One line that lets the silo's owner see whether this is what was meant."""
    from hansa.core.text import count

    spec = silo.spec
    joined = spec.federation
    return (
        f"{silo.metadata.name} takes part in {joined.name} as {joined.environment}, in world "
        f"{spec.world}, for {count(int(spec.most_rounds), 'round')} on {spec.agreed.model.source}"
    )


def check_for_cluster(federation: "Federation") -> None:
    """Refuse what an operator with the chart's default settings refuses, in its sentences."""
    from hansa.kubernetes.pod_policy.refusals import PodAllowlist, check_federation

    now = target.now()
    refused = check_federation(federation, PodAllowlist(), now)
    _refuse(
        refused, assumed=refused != check_federation(federation, PodAllowlist.everything(), now)
    )


def _refuse(refused: "list[PodViolation]", *, assumed: bool) -> None:
    """All sentences at once; `assumed`: some are about settings that may be others."""
    if not refused:
        return
    hint = (
        "this is what an operator with the chart's defaults refuses; yours may allow more in "
        "settings.allowedSecrets, settings.allowedTolerations and the other settings.allowed..."
    )
    sentences = "\n".join(refusal.sentence for refusal in refused)
    raise InputError(sentences, hint=hint if assumed else "")


def say_consents(federations: "list[Federation]") -> None:
    """What the owners of the Secrets that these name have to type, unless they have."""
    from hansa.kubernetes.pod_policy import consent

    _say_lines(consent.list_commands(federations))


def _say_lines(lines: list[str]) -> None:
    if lines:
        say(
            "note: a Secret consents to its use by a key in it; where it has none, its owner types:"
        )
    for line in lines:
        say(f"  {line}")


def summarize(federation: "Federation") -> str:
    """One line that lets the reader see whether this is what was meant."""
    from hansa.core.text import count

    spec = federation.spec
    names = ", ".join(e.name + " elsewhere" * bool(e.member) for e in spec.environments[:8])
    more = ", …" if len(spec.environments) > 8 else ""
    return (
        f"{federation.metadata.name} has {count(len(spec.environments), 'environment')} "
        f"({names}{more}) and {count(spec.rounds, 'round')} on {spec.model.source}"
    )


def list_notes(federation: "Federation") -> list[str]:
    """What is allowed, and yet worth knowing before a run."""
    from hansa.manifests.world_notes import find_world_notes
    from hansa.plan.policy import advice

    spec = federation.spec
    return [
        *_note_unknown_experts(spec),
        *find_world_notes(spec),
        *_note_storage(spec),
        *_note_digests(spec),
        *_note_server_step(spec),
        *_note_privacy(spec),
        *_note_masks(spec),
        *advice.find_unencrypted(spec),
    ]


def _note_unknown_experts(spec: "FederationSpec") -> Iterator[str]:
    """Demonstrations of worlds about which this machine can say nothing."""
    from hansa.api.worlds import WORLDS
    from hansa.core.text import count
    from hansa.manifests.demonstrations import list_required

    known = WORLDS.list_points()
    for each in list_required(spec):
        if each.world not in known:
            yield (
                f"{each.where}: this machine does not know world {each.world}; it needs an expert "
                f"to show {count(each.count, 'demonstration')}"
            )


def _note_server_step(spec: "FederationSpec") -> Iterator[str]:
    """A step that no mean of updates can need."""
    from hansa.core.text import count

    step, members = spec.aggregation.server_step, len(spec.environments)
    if step != "auto" and step > members and spec.aggregation.strategy != "none":
        yield (
            f"spec.aggregation.serverStep: {step:g} is more than the sum of what "
            f"{count(members, 'environment')} {'change' if members > 1 else 'changes'}, which "
            "ruins most agents; auto finds a step that fits, and spec.guard goes back where one "
            "did not"
        )


def _note_privacy(spec: "FederationSpec") -> Iterator[str]:
    """A guard that would judge by noise."""
    if not spec.privacy or not spec.guard or not spec.guarded:
        return
    least = 3 * spec.privacy.evaluation_noise / spec.evaluation.count_validation_tasks(guarded=True)
    if spec.guard.max_drop < least:
        yield (
            f"spec.guard.maxDrop: {spec.guard.max_drop:g} is less than three times the noise of "
            f"spec.privacy.evaluationNoise ({least:.2g}): the guard would judge by noise; more "
            "evaluation.validationTasks or a larger maxDrop help"
        )


def _note_masks(spec: "FederationSpec") -> Iterator[str]:
    """Masks hide a bad update as well as a good one."""
    if spec.aggregation.secure and not spec.guarded:
        yield (
            "spec.guard is absent: with aggregation.secure nobody sees one update alone, and one "
            "hostile silo can ruin a round unnamed; a guard goes back behind it"
        )


def _note_storage(spec: "FederationSpec") -> Iterator[str]:
    if spec.storage is None:
        yield "spec.storage is absent: `hansa run` starts a store of its own, a cluster needs one"
        return
    here = [e for e in spec.environments if e.member is None]  # another's is in a store of its own
    shared = [e.name for e in here if not (e.experience_storage or e.experience_key_secret)]
    if shared:
        yield (
            f"{', '.join(shared[:5])}{' and others' if len(shared) > 5 else ''}: without "
            "experienceStorage or experienceKeySecret only the bucket's policy keeps trajectories "
            "apart"
        )


def _note_digests(spec: "FederationSpec") -> Iterator[str]:
    """Digests without which members outvote each other, where several parties take part."""
    parties = {e.credentials_secret.name for e in spec.environments if e.credentials_secret}
    named = {"model.sha256": spec.model.sha256, "adapter.shapes": spec.adapter.shapes}
    missing = [f"spec.{name}" for name, digest in named.items() if digest is None]
    if len(parties) > 1 and missing:
        yield (
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} absent: the first "
            "round's majority decides which base model and shapes count, and of two parties "
            "either can stop the other; `hansa model FILE` prints them"
        )
