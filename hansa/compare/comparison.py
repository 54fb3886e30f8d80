"""A comparison's file, and the runs that it asks for; every mistake has one sentence."""

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from hansa.api.spec import MAX_ENVIRONMENTS, Storage
from hansa.api.status import Federation
from hansa.compare import methods
from hansa.compare.methods import METHODS, Method
from hansa.core.errors import InputError
from hansa.core.model import Model
from hansa.manifests import load
from hansa.plan.policy.apart import NONE

REFERENCE = "fed-se"

MethodName = Annotated[
    str, Field(pattern=r"^[a-z0-9]([-a-z0-9+.]*[a-z0-9])?$", min_length=1, max_length=40)
]


class MethodEntry(Model):
    """One method of the comparison."""

    name: MethodName
    """Its name in tables; a known method's name alone stands for that method."""
    base: str = REFERENCE
    """The known method that it changes."""
    spec: dict[str, Any] = Field(default_factory=dict)
    """Fields of the federation's spec that it sets."""
    without: Annotated[list[str], Field(max_length=MAX_ENVIRONMENTS)] = Field(default_factory=list)
    """Environments that take no part and are scored all the same: worlds never seen."""


class Comparison(Model):
    """Methods and seeds over one federation."""

    federation: Annotated[str, Field(min_length=1, max_length=500)]
    """Its manifest, as a path from this file's folder."""
    title: Annotated[str, Field(max_length=200)] = ""
    """What the page is called; absent: the federation's name."""
    seeds: Annotated[
        list[Annotated[int, Field(ge=0, le=2**31 - 1)]], Field(min_length=1, max_length=100)
    ]
    """Every method is run once with each of them."""
    methods: Annotated[list[MethodEntry], Field(min_length=1, max_length=100)]
    """What is compared, in the order of the table."""
    spec: dict[str, Any] = Field(default_factory=dict)
    """Fields of the spec that are set for all of them, for example fewer rounds."""
    reference: str = REFERENCE
    """The method that the others are compared with."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One method with one seed."""

    method: str
    """Name of the entry."""
    base: str
    """The known method that it is, or changes."""
    seed: int
    """Its seed."""
    federation: Federation
    """What is run."""
    silos: Federation
    """The same with every environment on its own, also those that take no part."""
    unseen: tuple[str, ...] = ()
    """Environments that take no part, and in which the shared adapter is scored at the end."""

    @property
    def kind(self) -> Method:
        """What kind of run it is."""
        return METHODS[self.base]

    @property
    def left_out(self) -> list[dict[str, Any]]:
        """Those environments as the spec has them."""
        every: list[dict[str, Any]] = self.silos.spec.to_json()["environments"]
        return [each for each in every if each["name"] in self.unseen]

    @property
    def id(self) -> str:
        """Its name in folders and files."""
        return f"{self.method}-{self.seed}"


@dataclass(frozen=True, kw_only=True)
class CheckedComparison:
    """A comparison that was read and checked."""

    name: str
    """Name of its federation."""
    title: str
    """What its page is called."""
    reference: str
    """The method that the others are compared with; empty where it is not among them."""
    methods: list[str]
    """Names in the order of the table."""
    bases: dict[str, str]
    """The known method behind each name."""
    environments: dict[str, str]
    """World of each environment, by its name, in the manifest's order."""
    storage: Storage | None = None
    """The manifest's, for runs on a cluster; those on one machine have a store each."""
    runs: list[Run]
    """Seed by seed, so that a table that is not complete compares like with like."""


def read(path: Path, *, here: bool = True) -> CheckedComparison:
    """The comparison in a file, with the spec of every run checked.

    `here`: it is to run on this machine, so what that lacks is refused too.
    """
    document = load.read(path, "comparison")
    if isinstance(document, dict) and "kind" in document:
        raise InputError(
            f"{path}: got a {document['kind']}, expected a comparison with federation, seeds and "
            "methods",
            hint="write a file whose `federation` names that manifest",
        )
    comparison = load.validate_model(Comparison, _spell_out_methods(document, path))
    manifest = path.parent / comparison.federation
    base = load.read(manifest)
    if not isinstance(base, dict) or not isinstance(base.get("spec"), dict):
        load.build(base, str(manifest))  # says what is wrong with it
    whole = methods.merge_documents(base["spec"], comparison.spec)
    _check_privacy(whole, "spec")
    shared = methods.drop_stores(comparison.spec)
    storage = _federation(base, whole, "spec", here=False).spec.storage
    spec = methods.drop_stores(whole)
    plain = _federation(base, spec, "spec", here=here)
    _check_names(comparison)
    runs = [
        _run(base, (spec, shared), index, entry, seed, here=here and seed == comparison.seeds[0])
        for seed in comparison.seeds
        for index, entry in enumerate(comparison.methods)
    ]
    names = [entry.name for entry in comparison.methods]
    return CheckedComparison(
        name=plain.metadata.name,
        title=comparison.title or plain.metadata.name,
        reference=_choose_reference(comparison, names),
        methods=names,
        bases={entry.name: entry.base for entry in comparison.methods},
        environments={e.name: e.world for e in plain.spec.environments},
        storage=storage,
        runs=runs,
    )


def _spell_out_methods(document: Any, path: Path) -> Any:
    """The document with every method as a mapping; a name alone is the method of that name."""
    if not isinstance(document, dict):
        raise InputError(f"{path}: expected a mapping with federation, seeds and methods")
    given = document.get("methods")
    if not isinstance(given, list):
        return document
    entries = [{"name": e, "base": e} if isinstance(e, str) else e for e in given]
    return {**document, "methods": entries}


def _check_names(comparison: Comparison) -> None:
    for index, seed in enumerate(comparison.seeds):
        if seed in comparison.seeds[:index]:
            raise InputError(f"seeds[{index}]: got {seed} a second time, expected distinct seeds")
    names = [entry.name for entry in comparison.methods]
    for index, entry in enumerate(comparison.methods):
        if entry.base not in METHODS:
            near = difflib.get_close_matches(entry.base, METHODS, n=1)
            known = ", ".join(METHODS)
            where = f"methods[{index}]" + (".base" if entry.base != entry.name else "")
            raise InputError(
                f"{where}: got '{entry.base}', expected one of {known}",
                hint=f"did you mean {near[0]}?" if near else "",
            )
        if entry.name in names[:index]:
            raise InputError(f"methods[{index}].name: got '{entry.name}' a second time")
        if entry.name in METHODS and entry.base != entry.name:
            raise InputError(
                f"methods[{index}].name: got '{entry.name}', which is another method than "
                f"{entry.base}, expected a name of its own"
            )


def _choose_reference(comparison: Comparison, names: list[str]) -> str:
    given = "reference" in comparison.model_fields_set
    if given and comparison.reference not in names:
        raise InputError(
            f"reference: got '{comparison.reference}', expected one of {', '.join(names)}"
        )
    return comparison.reference if comparison.reference in names else ""


def _run(
    base: Any, specs: tuple[Any, Any], index: int, entry: MethodEntry, seed: int, *, here: bool
) -> Run:
    """One run of the manifest's spec and the comparison's.

    `here`: whether to check what this machine lacks; that is the same for every seed.
    """
    method = METHODS[entry.base]
    where = f"methods[{index}] ({entry.name})"
    own = methods.apply_method(*specs, method, entry.spec, seed)
    _check_privacy(own, f"methods[{index}].spec")
    silos = _federation(base, own, where, here=here)
    _check_without(entry, silos, f"methods[{index}].without")
    run = methods.drop_environments(own, entry.without) if entry.without else own
    run = methods.pool_environments(run) if method.pooled else run
    return Run(
        method=entry.name,
        base=entry.base,
        seed=seed,
        federation=_federation(base, run, where, here=False),
        silos=silos,
        unseen=tuple(entry.without),
    )


def _check_privacy(spec: Any, where: str) -> None:
    """Refuse privacy before its own checks do, which would ask for stores that no run here has."""
    if spec.get("privacy") is not None:
        raise InputError(
            f"{where}.privacy: got one, expected none in a comparison: all silos of its runs share "
            "a store, in which the keys of their noise would lie open",
            hint="`spec: {privacy: null}` in the comparison's file compares methods without it; "
            "docs/privacy.md has what it costs",
        )


def _check_without(entry: MethodEntry, silos: Federation, where: str) -> None:
    """Refuse to leave out what is not there, all there is, or what only its own silo has."""
    names = [environment.name for environment in silos.spec.environments]
    for index, name in enumerate(entry.without):
        if name not in names:
            known = ", ".join(names)
            raise InputError(f"{where}[{index}]: got '{name}', expected one of {known}")
    if set(entry.without) == set(names):
        raise InputError(f"{where}: got every environment, expected one at least to take part")
    shares = METHODS[entry.base].trains and silos.spec.aggregation.strategy != NONE
    if entry.without and not shares:
        raise InputError(
            f"{where}: got {', '.join(entry.without)}, and {entry.name} makes no adapter for all, "
            "expected none"
        )


def _federation(base: Any, spec: Any, where: str, *, here: bool = True) -> Federation:
    """A federation, or the sentence about its spec with the place that changed it."""
    try:
        federation = load.build({**base, "spec": spec})
        if here:
            load.check_on_machine(federation)
    except InputError as error:
        message = error.message if where == "spec" else f"{where}: {error.message}"
        raise InputError(message, error.hint) from None
    return federation
