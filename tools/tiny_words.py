"""Give `builtin:tiny` words that its training never showed: it reads them, and hardly writes them.

    python tools/tiny_words.py client_image/hansa_client/models/builtin/tiny

A world that gains a word needs no new training for the model to tell it from other words; the new
rows are the mean of all words. Words that are known already are left alone.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "worlds"), str(ROOT / "client_image"), str(ROOT / "tools")]

import numpy as np  # noqa: E402
from safetensors.numpy import load_file, save_file  # noqa: E402

from tiny import tokens  # noqa: E402

EMBEDDING = "model.embed_tokens.weight"


def grow(known: dict[str, int], wanted: list[str]) -> dict[str, int]:
    """The words with the new ones behind them, in place of the spare ones, to a multiple of 64."""
    kept = [word for word in sorted(known, key=known.__getitem__) if "<|spare" not in word]
    words = kept + sorted(set(wanted) - set(kept))
    words += [f"<|spare{number}|>" for number in range(-len(words) % 64)]
    return {word: index for index, word in enumerate(words)}


def note(folder: Path, added: int, parameters: int) -> None:
    """Keep in the scores' file what the model is now; words of earlier calls count too."""
    file = folder / "base_scores.json"
    report = json.loads(file.read_text())
    report["parameters"] = parameters
    report["words_added_after_training"] = report.get("words_added_after_training", 0) + added
    file.write_text(json.dumps(report, indent=1, sort_keys=True) + "\n")


def main(folder: Path) -> None:
    """Change tokenizer, weights, config and their documents together."""
    known = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    words = grow(known, tokens.item_words())
    weights = load_file(folder / "model.safetensors")
    old = weights[EMBEDDING]
    rows = np.repeat(old.mean(axis=0, keepdims=True), len(words), axis=0)
    for word in words.keys() & known.keys():
        rows[words[word]] = old[known[word]]
    weights[EMBEDDING] = rows.astype(old.dtype)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    tokens.save(words, folder)
    config = json.loads((folder / "config.json").read_text())
    config["vocab_size"] = len(words)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    added = [word for word in words if word not in known and "<|spare" not in word]
    note(folder, len(added), sum(tensor.size for tensor in weights.values()))
    print(f"{len(added)} words added, {len(words)} tokens now")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
