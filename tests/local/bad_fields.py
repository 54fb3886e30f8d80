"""Manifests with a bad field each, and what is said of it: the field, what came, what fits."""

from pathlib import Path

from tests.local.edits import Edit, remover, setter

EDITS: dict[str, tuple[Edit, str, str]] = {
    # what is wrong: (edit, field named, remedy named)
    "more broken than all": (
        setter("spec.exploration.maxBrokenEpisodes", 2),
        "spec.exploration.maxBrokenEpisodes: got 2",
        "0 to 1",
    ),
    "no samples": (
        setter("spec.evaluation.samplesPerTask", 0),
        "spec.evaluation.samplesPerTask: got 0",
        "1 to 64",
    ),
    "demonstrations from the web": (
        setter("spec.experience.demonstrationsFrom", "https://example.org/a.jsonl"),
        "spec.experience.demonstrationsFrom: got 'https://example.org/a.jsonl'",
        "s3://bucket/key of one file (no * ? $, no slash at its end), or its path",
    ),
    "no file of demonstrations": (
        setter("spec.environments.0.demonstrationsFrom", "/no/such/file"),
        "spec.environments[0].demonstrationsFrom: got '/no/such/file'",
        "the path of a file in AgentGym's format",
    ),
    "no apiVersion": (remover("apiVersion"), "apiVersion: got nothing", "hansa.dev/v1alpha1"),
    "wrong apiVersion": (setter("apiVersion", "v1"), "apiVersion: got 'v1'", "hansa.dev/v1alpha1"),
    "wrong kind": (setter("kind", "Deployment"), "kind: got 'Deployment'", "expected Federation"),
    "no metadata": (remover("metadata"), "metadata: got nothing", "a mapping with name"),
    "no name": (remover("metadata.name"), "metadata.name: got nothing", "lower-case letters"),
    "name in capitals": (setter("metadata.name", "Five"), "metadata.name: got 'Five'", "lower"),
    "name too long": (setter("metadata.name", "a" * 41), "got 41 characters", "at most 40"),
    "no spec": (remover("spec"), "spec: got nothing", "a mapping with environments"),
    "spec is text": (setter("spec", "five"), "spec: got 'five'", "a mapping"),
    "spec is null": (setter("spec", None), "spec: got null", "a mapping"),
    "no environments": (remover("spec.environments"), "spec.environments: got nothing", "a list"),
    "empty environments": (
        setter("spec.environments", []),
        "spec.environments: got 0 entries",
        "a list of 1 to 100 entries",
    ),
    "101 environments": (
        setter("spec.environments", [{"name": f"e{i}", "world": "maze"} for i in range(101)]),
        "spec.environments: got 101 entries",
        "a list of 1 to 100 entries",
    ),
    "environment is text": (
        setter("spec.environments.1", "wordle"),
        "spec.environments[1]: got 'wordle'",
        "a mapping with name",
    ),
    "environment without world": (
        remover("spec.environments.1.world"),
        "spec.environments[1].world: got nothing",
        "the world that it plays",
    ),
    "environment without name": (
        remover("spec.environments.0.name"),
        "spec.environments[0].name: got nothing",
        "lower-case letters",
    ),
    "duplicate environment": (
        setter("spec.environments.1.name", "maze"),
        "spec.environments[1].name: got 'maze' a second time",
        "expected unique names",
    ),
    "reserved environment": (
        setter("spec.environments.1.name", "aggregator"),
        "spec.environments[1].name: got 'aggregator'",
        "keeps for itself",
    ),
    "rounds is text": (setter("spec.rounds", "many"), "spec.rounds: got 'many'", "a whole number"),
    "rounds is quoted": (setter("spec.rounds", "20"), "spec.rounds: got '20'", "a whole number"),
    "rounds is zero": (setter("spec.rounds", 0), "spec.rounds: got 0", "from 1 to 10000"),
    "rounds is a fraction": (setter("spec.rounds", 2.5), "spec.rounds: got 2.5", "a whole number"),
    "rounds is a truth": (setter("spec.rounds", True), "spec.rounds: got true", "a whole number"),
    "seed is negative": (setter("spec.seed", -1), "spec.seed: got -1", "from 0 to 2147483647"),
    "suspend is text": (setter("spec.suspend", "no"), "spec.suspend: got 'no'", "true or false"),
    "rank too large": (setter("spec.adapter.rank", 512), "spec.adapter.rank: got 512", "1 to 256"),
    "dropout of one": (setter("spec.adapter.dropout", 1), "spec.adapter.dropout: got 1", "below 1"),
    "no target modules": (
        setter("spec.adapter.targetModules", []),
        "spec.adapter.targetModules: got ",
        "all-linear or a list of 1 to 50 entries",
    ),
    "target modules of numbers": (
        setter("spec.adapter.targetModules", [7]),
        "spec.adapter.targetModules",
        "expected",
    ),
    "temperature of zero": (
        setter("spec.exploration.temperature", 0),
        "spec.exploration.temperature: got 0",
        "above 0 and at most 5",
    ),
    "unknown filter": (
        setter("spec.experience.filter", "good"),
        "spec.experience.filter: got 'good'",
        "success or none",
    ),
    "unknown learner": (
        setter("spec.training.learner", "ppo"),
        "spec.training.learner: got 'ppo'",
        "success-sft",
    ),
    "a learner that compares, with nothing to compare": (
        setter("spec.training.learner", "grpo"),
        "spec.exploration.samplesPerTask: got 1",
        "expected 2 or more (training.learner grpo compares episodes of one task)",
    ),
    "unknown strategy": (
        setter("spec.aggregation.strategy", "bulyan"),
        "spec.aggregation.strategy: got 'bulyan'",
        "mean",
    ),
    "krum with too few environments": (
        setter("spec.aggregation.strategy", "krum"),
        "spec.aggregation.faulty: got 1",
        "needs 5 environments (2 x faulty + 3), and spec.environments has 2",
    ),
    "a guard that could judge by nothing": (
        lambda document: document["spec"].update(
            guard={"maxDrop": 0.1}, evaluation={"validationTasks": 0}
        ),
        "spec.evaluation.validationTasks: got 0",
        "expected at least 1",
    ),
    "contributions of two": (
        setter("spec.evaluation.contributions", {}),
        "spec.evaluation.contributions: got a value with 2 environments",
        "expected 3 to 32",
    ),
    "contributions of no round": (
        setter("spec.evaluation.contributions", {"everyRounds": 0}),
        "spec.evaluation.contributions.everyRounds: got 0",
        "1 to 1000",
    ),
    "a probe of an unknown world": (
        setter("spec.probes", [{"name": "p", "world": "mace", "options": {}}]),
        "spec.probes[0].world: got 'mace'",
        "maze",
    ),
    "a probe of a world without rules": (
        setter("spec.probes", [{"name": "p", "world": "maze"}]),
        "spec.probes[0].options: got those of a world maze that counts no broken rules",
        "low_wall",
    ),
    "a probe with an option that its world refuses": (
        setter("spec.probes", [{"name": "p", "world": "webshop", "options": {"rule": "all"}}]),
        "spec.probes[0].options.rule: got 'all'",
        "none or budget",
    ),
    "a probe of nothing": (
        setter("spec.probes", [{"name": "p"}]),
        "spec.probes[0]: got nothing to measure",
        "expected one of world, prompts and texts",
    ),
    "a probe of two things": (
        setter("spec.probes", [{"name": "p", "texts": ["a"], "world": "maze"}]),
        "spec.probes[0]: got world and texts",
        "expected one of world, prompts and texts",
    ),
    "prompts with nothing forbidden": (
        setter("spec.probes", [{"name": "p", "prompts": ["a"]}]),
        "spec.probes[0].forbidden: got nothing",
        "at least one pattern",
    ),
    "a pattern that is none": (
        setter("spec.probes", [{"name": "p", "prompts": ["a"], "forbidden": ["a", "("]}]),
        "spec.probes[0].forbidden[1]: got '('",
        "a regular expression",
    ),
    "a pattern that would take for ever": (
        setter("spec.probes", [{"name": "p", "prompts": ["a"], "forbidden": ["(a+)+b"]}]),
        "spec.probes[0].forbidden[0]: got '(a+)+b' with a repeated group",
        "expected a pattern without",
    ),
    "a pattern with too many ways": (
        setter("spec.probes", [{"name": "p", "prompts": ["a"], "forbidden": ["a*b*c"]}]),
        "spec.probes[0].forbidden[0]: got 'a*b*c'",
        "at most 4000: bound its repeats",
    ),
    "nine probes": (
        setter("spec.probes", [{"name": f"p{n}", "texts": ["a"]} for n in range(9)]),
        "spec.probes: got 9 entries",
        "at most 8",
    ),
    "two probes of one name": (
        setter("spec.probes", [{"name": "p", "texts": ["a"]}] * 2),
        "spec.probes[1].name: got 'p' a second time",
        "expected unique names",
    ),
    "probes that are too long": (
        setter("spec.probes", [{"name": "p", "texts": ["a" * 4000] * 5}]),
        "spec.probes: got 20",
        "expected at most 16000",
    ),
    "a bound on violations below 0": (
        setter("spec.guard", {"maxViolations": -0.1}),
        "spec.guard.maxViolations: got -0.1",
        "0 to 1",
    ),
    "a bound on forgetting below 0": (
        setter("spec.guard", {"maxForgetting": -1}),
        "spec.guard.maxForgetting: got -1",
        "0 to 1000",
    ),
    "a bound on violations that nothing counts": (
        setter("spec.guard", {"maxViolations": 0.1}),
        "spec.guard.maxViolations: got 0.1, and no probe counts broken rules",
        "expected spec.probes with a world or prompts",
    ),
    "a bound on forgetting without texts": (
        setter("spec.guard", {"maxForgetting": 0.1}),
        "spec.guard.maxForgetting: got 0.1, and no probe has texts",
        "expected spec.probes with texts",
    ),
    "probes where nothing is shared": (
        lambda document: document["spec"].update(
            probes=[{"name": "p", "texts": ["a"]}], aggregation={"strategy": "none"}
        ),
        "spec.probes: got 1, and aggregation.strategy none has no global adapter",
        "expected another strategy or no probes",
    ),
    "masks of two silos": (
        lambda document: document["spec"].update(aggregation={"secure": {}}),
        "spec.environments: got 2",
        "expected at least 3 with aggregation.secure",
    ),
    "masks of no length": (
        lambda document: document["spec"].update(aggregation={"secure": {"clipNorm": 0}}),
        "spec.aggregation.secure.clipNorm: got 0",
        "a number above 0",
    ),
    "a masking key that signs": (
        setter(
            "spec.environments",
            [{"name": "maze", "world": "maze", "maskingKey": "ed25519:" + "A" * 43}],
        ),
        "spec.environments[0].maskingKey: got 'ed25519:",
        "x25519: and 43 letters",
    ),
    "a key for experience without its Secret's name": (
        setter(
            "spec.environments",
            [{"name": "maze", "world": "maze", "experienceKeySecret": "maze.key"}],
        ),
        "spec.environments[0].experienceKeySecret: got text",
        "expected a mapping with name",
    ),
    "privacy without a private store": (
        lambda document: document["spec"].update(privacy={"epsilon": 8, "delta": 1e-5}),
        "spec.environments[0].experienceStorage: got nothing",
        "expected a private store",
    ),
    "privacy without a delta": (
        lambda document: document["spec"].update(privacy={"epsilon": 8}),
        "spec.privacy.delta: got nothing",
        "expected",
    ),
    "privacy of no known unit": (
        lambda document: document["spec"].update(
            privacy={"epsilon": 8, "delta": 1e-5, "unit": "token"}
        ),
        "spec.privacy.unit: got 'token'",
        "task",
    ),
    "more updates than environments": (
        setter("spec.participation.minimumUpdates", 3),
        "spec.participation.minimumUpdates: got 3",
        "expected 1 to 2 (spec.environments has 2 entries)",
    ),
    "no updates": (
        setter("spec.participation.minimumUpdates", 0),
        "spec.participation.minimumUpdates: got 0",
        "1 to 100",
    ),
    "mistyped section": (
        setter("spec.trainig", {}),
        "spec.trainig: unknown field",
        "did you mean training?",
    ),
    "snake case": (
        setter("spec.participation.minimum_updates", 1),
        "spec.participation.minimum_updates: unknown field",
        "did you mean minimumUpdates?",
    ),
    "unknown field without a neighbour": (
        setter("spec.model.zzz", 1),
        "spec.model.zzz: unknown field",
        "expected one of sha256, source",
    ),
    "a tracker without its address": (
        setter("spec.tracking", {"to": "mlflow"}),
        "spec.tracking.url: got nothing",
        "expected the address of the MLflow server",
    ),
    "a password in a tracker's address": (
        setter("spec.tracking", {"to": "mlflow", "url": "https://me:secret@mlflow"}),
        "spec.tracking.url: got 'https://***@mlflow'",
        "expected http:// or https:// with a host, without a password",
    ),
    "a server for a tracker that writes files": (
        setter("spec.tracking", {"to": "tensorboard", "url": "https://board"}),
        "spec.tracking.url: got a value",
        "since tensorboard writes files",
    ),
    "a claim for a tracker that writes none": (
        setter("spec.tracking", {"to": "mlflow", "url": "https://mlflow", "claim": "boards"}),
        "spec.tracking.claim: got 'boards'",
        "since mlflow writes no files",
    ),
    "unknown field of a tracker": (
        setter("spec.tracking", {"to": "mlflow", "urll": "https://mlflow"}),
        "spec.tracking.urll: unknown field",
        "did you mean url?",
    ),
    "unknown field at the top": (
        setter("spce", {}),
        "spce: unknown field",
        "did you mean spec?",
    ),
    "engine without endpoints": (
        setter("spec.exploration.engine", "openai"),
        "spec.environments[0].endpoint: got nothing",
        "since exploration.engine is openai",
    ),
    "endpoint with a password": (
        setter(
            "spec.environments.0.endpoint", {"url": "https://me:secret@there", "server": "vllm"}
        ),
        "spec.environments[0].endpoint.url: got",
        "",
    ),
    "endpoint of an unknown server": (
        setter("spec.environments.0.endpoint", {"url": "https://there", "server": "ollama"}),
        "spec.environments[0].endpoint.server: got 'ollama'",
        "expected hansa or vllm or sglang or llama.cpp or transformers or other",
    ),
    "unknown field of an endpoint": (
        setter("spec.environments.0.endpoint", {"url": "https://there", "apiKey": "abc"}),
        "spec.environments[0].endpoint.apiKey: unknown field",
        "",
    ),
    "endpoint without scheme": (
        setter("spec.storage.s3.endpoint", "localhost:9000"),
        "spec.storage.s3.endpoint: got 'localhost:9000'",
        "http:// or https://",
    ),
    "no bucket": (
        remover("spec.storage.s3.bucket"),
        "spec.storage.s3.bucket: got nothing",
        "a bucket name of 3 to 63",
    ),
    "bucket in capitals": (
        setter("spec.storage.s3.bucket", "My_Bucket"),
        "spec.storage.s3.bucket: got 'My_Bucket'",
        "a bucket name of 3 to 63",
    ),
    "prefix with a slash": (
        setter("spec.storage.s3.prefix", "/five/"),
        "spec.storage.s3.prefix: got '/five/'",
        "without a slash at its ends",
    ),
    "unknown addressing style": (
        setter("spec.storage.s3.addressingStyle", "host"),
        "spec.storage.s3.addressingStyle: got 'host'",
        "auto or path or virtual",
    ),
    "storage without s3": (
        setter("spec.storage", {}),
        "spec.storage.s3: got nothing",
        "a mapping with bucket",
    ),
    "model of no kind": (
        setter("spec.model.source", "gpt"),
        "spec.model.source: got 'gpt'",
        "builtin:tiny, s3://bucket/prefix",
    ),
    "unknown builtin model": (
        setter("spec.model.source", "builtin:huge"),
        "spec.model.source: got 'builtin:huge'",
        "builtin:tiny",
    ),
    "model folder that is not there": (
        setter("spec.model.source", "path:/nowhere/at/all"),
        "spec.model.source: got 'path:/nowhere/at/all'",
        "there is no such folder",
    ),
    "model folder that is no model": (
        setter("spec.model.source", f"path:{Path(__file__).parent}"),
        "spec.model.source",
        "it has no config.json",
    ),
}
