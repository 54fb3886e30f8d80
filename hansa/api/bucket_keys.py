"""Bucket keys: the only module that spells a path inside the bucket.

An environment comes before the round, so that one prefix scopes a silo's credentials.
"""

ADAPTER = "adapter_model.safetensors"
CONFIG = "adapter_config.json"
MANIFEST = "manifest.json"
MOMENTS = "moments.safetensors"
"""Second moments of a silo's inputs, beside the update that they belong to."""
STATE = "server_state.safetensors"
"""What a strategy remembers from one round to the next, beside the adapter it made."""


def _under(prefix: str, path: str) -> str:
    return f"{prefix}/{path}" if prefix else path


def federation(prefix: str) -> str:
    """The immutable spec of the run that owns the prefix."""
    return _under(prefix, "federation.json")


def global_root(prefix: str) -> str:
    """Where all global adapters live; every environment may read below it."""
    return _under(prefix, "global/")


def global_folder(prefix: str, round_: int) -> str:
    """Folder of the adapter that a round's aggregation made."""
    return f"{global_root(prefix)}{round_:05d}/"


def probe(prefix: str) -> str:
    """A small object that shows whether a store writes once; the aggregator may write it."""
    return f"{global_root(prefix)}.probe"


def audit_root(prefix: str) -> str:
    """Where the audit log lives; the aggregator writes it, and every environment may read it."""
    return _under(prefix, "audit/")


def audit_entry(prefix: str, round_: int) -> str:
    """What the aggregator did in a round; each entry names the one before by its digest."""
    return f"{audit_root(prefix)}{round_:08d}.json"


def parse_round(root: str, key: str) -> int | None:
    """The round in a key below a root, as `audit_entry` and folders have it; None: it has none."""
    name = key.removeprefix(root).partition("/")[0].removesuffix(".json")
    return int(name) if name.isascii() and name.isdecimal() else None


def updates_root(prefix: str) -> str:
    """Where the updates of all environments live; the aggregator may read below it."""
    return _under(prefix, "updates/")


def update_root(prefix: str, environment: str) -> str:
    """Where one environment's updates live; only it may write there."""
    return f"{updates_root(prefix)}{environment}/"


def update_folder(prefix: str, environment: str, round_: int) -> str:
    """Folder of the adapter an environment offers; readers look for its manifest first."""
    return f"{update_root(prefix, environment)}{round_:05d}/"


def masked_body(epoch: int) -> str:
    """Name of the masked update in its folder; each epoch of a round has its own."""
    return f"masked-{epoch}.bin"


def masked_manifest(epoch: int) -> str:
    """Name of the manifest that commits a masked update; that of epoch 0 is any update's."""
    return f"manifest-{epoch}.json" if epoch else MANIFEST


def claims_root(prefix: str) -> str:
    """Where silos claim their places in masked sums; the aggregator may write there, too."""
    return _under(prefix, "claims/")


def claim_root(prefix: str, environment: str) -> str:
    """Claims of one environment."""
    return f"{claims_root(prefix)}{environment}/"


def claim(prefix: str, environment: str, round_: int, epoch: int) -> str:
    """Whether an environment is in one sum: written once, by it or, as a tombstone, against it."""
    return f"{claim_root(prefix, environment)}{round_:05d}-{epoch}.json"


def evaluation_root(prefix: str, environment: str) -> str:
    """Where one environment's evaluations live."""
    return _under(prefix, f"evaluations/{environment}/")


def evaluation(prefix: str, environment: str, round_: int, *, own: bool = False) -> str:
    """How the global adapter of a round did on held-out tasks; round 0 is the base model.

    `own`: how the environment's own update of the round did, before it was merged.
    """
    return f"{evaluation_root(prefix, environment)}{round_:05d}{'-own' * own}.json"


def orders_root(prefix: str) -> str:
    """Where the coordinator's letters to all remote silos lie; only it may write there."""
    return _under(prefix, "orders/")


def order_root(prefix: str, environment: str) -> str:
    """Its letters to one silo, which may read them."""
    return f"{orders_root(prefix)}{environment}/"


def order(prefix: str, environment: str, serial: int) -> str:
    """One letter to a silo; the first has serial 1, and none is left out."""
    return f"{order_root(prefix, environment)}{serial:06d}.json"


def answers_root(prefix: str) -> str:
    """Where the letters of all remote silos lie; the coordinator may read below it."""
    return _under(prefix, "answers/")


def answer_root(prefix: str, environment: str) -> str:
    """One silo's letters; only it may write there."""
    return f"{answers_root(prefix)}{environment}/"


def answer(prefix: str, environment: str, serial: int) -> str:
    """One letter of a silo, numbered as orders are."""
    return f"{answer_root(prefix, environment)}{serial:06d}.json"


def experience_root(private_prefix: str, environment: str) -> str:
    """The silo's private trajectories; nobody else may read below it."""
    return _under(private_prefix, f"experience/{environment}/")


def experience_shard(private_prefix: str, environment: str, round_: int) -> str:
    """One round's explored episodes; shard 0 holds the demonstrations."""
    return f"{experience_root(private_prefix, environment)}{round_:05d}.jsonl.zst"


def evaluation_tasks(
    private_prefix: str, environment: str, round_: int, *, own: bool = False
) -> str:
    """The same evaluation task by task, which is as private as the trajectories."""
    root = experience_root(private_prefix, environment)
    return f"{root}evaluations/{round_:05d}{'-own' * own}.json"


def released_evaluation(
    private_prefix: str, environment: str, round_: int, *, own: bool = False
) -> str:
    """What was published of an evaluation: the one answer about its adapter."""
    root = experience_root(private_prefix, environment)
    return f"{root}released/{round_:05d}{'-own' * own}.json"


def personal_folder(private_prefix: str, environment: str, round_: int) -> str:
    """What the silo serves itself after a round; as private as its trajectories."""
    return f"{experience_root(private_prefix, environment)}personal/{round_:05d}/"


def finetuned_adapter(private_prefix: str, environment: str, round_: int, number: int) -> str:
    """The global adapter of a round after a number of rounds that the silo played alone."""
    folder = personal_folder(private_prefix, environment, round_)
    return f"{folder}finetuned-{number:05d}.safetensors"


def alone_prefix(private_prefix: str, environment: str, round_: int) -> str:
    """Where the silo evolves alone for comparison after a round, laid out like a federation."""
    return f"{experience_root(private_prefix, environment)}alone/{round_:05d}"


def scores_root(prefix: str, name: str) -> str:
    """A place of its own for scoring one adapter outside any round, laid out like a federation."""
    return _under(prefix, f"scores/{name}")


def sealed_updates(private_prefix: str, environment: str) -> str:
    """What is in the silo's sealed updates, folder by folder: it cannot open them itself."""
    return f"{experience_root(private_prefix, environment)}updates/"


def masking_updates(private_prefix: str, environment: str) -> str:
    """The silo's updates before they were masked, folder by folder; nobody else may read them."""
    return f"{experience_root(private_prefix, environment)}masking/"


def masking_record(private_prefix: str, environment: str, round_: int, epoch: int) -> str:
    """Whom a silo has masked for in an epoch: it does so once."""
    return f"{masking_updates(private_prefix, environment)}{round_:05d}/epoch-{epoch}.json"


def optimizer_state(private_prefix: str, environment: str, round_: int) -> str:
    """The optimizer's moments after a round's training; as private as what it was trained on."""
    return f"{experience_root(private_prefix, environment)}optimizer/{round_:05d}.safetensors"


def privacy_root(environment: str) -> str:
    """Keys of the noise and the ledger of what was given away; nobody else may read below it.

    It is below no prefix: a silo has one ledger, whatever prefix a run uses in its private store.
    """
    return f"hansa-privacy/{environment}/"


def privacy_budget(environment: str) -> str:
    """What the silo's owner allows in all runs, which counts beside the spec's budget."""
    return f"{privacy_root(environment)}budget.json"


def privacy_entry(environment: str, release: str) -> str:
    """The ledger's entry for one release, as a round's training or an adapter's evaluation."""
    return f"{privacy_root(environment)}{release}.json"


def privacy_secret(environment: str, release: str) -> str:
    """The key that one release's random numbers are drawn from; written once."""
    return f"{privacy_root(environment)}{release}.key"
