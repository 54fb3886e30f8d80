"""The model card of an adapter's folder: its base, how to prompt it, and code that plays a turn.

The chat format is the base's own template. It is shown where the template can be read here, and
only described elsewhere.
"""

import json
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from hansa.adapter.chat_templates import guard_template
from hansa.adapter.lora import BaseName, base_name
from hansa.api.status import Federation
from hansa.core.files import replace_file

NAME = "README.md"
TAGS = ["lora", "agent", "federated-learning", "hansa"]
FIRST = (
    "Reach the goal.\n"
    "The goal is at position 8, 6. Your current position is at position 5, 4. "
    "There are walls above you, below you."
)
ACTION = "move right"
NEXT = (
    "The goal is at position 8, 6. Your current position is at position 5, 5. "
    "There are walls above you, below you."
)
_PLAIN = "{first}\n> {action}{end}\n{next}\n> "
"""How the client prompts a model without a chat template."""


_PROMPT = (
    "## How to prompt it\n\n"
    "The world speaks as `user`, the agent as `assistant`. The first message is the world's\n"
    "rules (all of them, a line or none, by its option `prompt`) and the first observation.\n"
    "The action is what follows `Action:` in the agent's answer, or else the whole answer.\n"
)


class TokenizerPrompts(NamedTuple):
    """What a tokenizer's files say about prompts."""

    template: str
    """Its chat template; empty where it has none."""
    specials: dict[str, str]
    """Special tokens that a template may name, such as bos_token."""


class PublishedCard(NamedTuple):
    """What the card of a published adapter says beside, and what it calls things."""

    base: BaseName
    """The base model as others find it, never a folder of this machine."""
    license: str
    """Licence of the adapter; empty: none is named."""
    adapter: str
    """What the code loads the adapter from."""
    sections: str
    """Figures and settings, as Markdown."""


def write(federation: Federation, round_: int, folder: Path, environment: str = "") -> bool:
    """Write the card beside the adapter; false where there is a README of another author."""
    target = folder / NAME
    if target.exists() and not _is_card(target):
        return False
    replace_file(target, render(federation, round_, environment).encode())
    return True


def render(
    federation: Federation, round_: int, environment: str = "", public: PublishedCard | None = None
) -> str:
    """The card of a round's global adapter, or of what an environment serves itself."""
    source = federation.spec.model.source
    tokens = _read_tokens(source)
    if public:
        source = _format_source(public.base)
    adapter = public.adapter if public else "."
    place = ", run in this folder" if adapter == "." else ""
    matter = {
        "base_model": base_name(source).name,
        "base_model_relation": "adapter",
        "library_name": "peft",
        **({"license": public.license} if public and public.license else {}),
        "pipeline_tag": "text-generation",
        "tags": TAGS,
    }
    return "\n".join(
        [
            f"---\n{yaml.safe_dump(matter, sort_keys=False)}---\n",
            _render_title(federation, round_, environment, source),
            *([public.sections] if public else []),
            _PROMPT,
            _render_format(tokens),
            f"The first turn of an episode in plain transformers and PEFT{place}:\n",
            f"```python\n{_render_code(source, tokens, adapter)}\n```",
            _render_auto_class(source, adapter),
        ]
    )


def _format_source(base: BaseName) -> str:
    """A base as spec.model.source has it."""
    if base.name.startswith("builtin:"):
        return base.name
    return f"hf:{base.name}@{base.revision}" if base.revision else f"hf:{base.name}"


def _is_card(path: Path) -> bool:
    with suppress(OSError, UnicodeDecodeError):
        return is_hansa_card(path.read_text(), "library_name: peft\n")
    return False


def is_hansa_card(text: str, line: str = "") -> bool:
    """Whether a README is a card of Hansa's, with a line that it must have."""
    matter, _, _ = text.removeprefix("---\n").partition("---\n")
    return line in matter and "- hansa\n" in matter


def _render_title(federation: Federation, round_: int, environment: str, source: str) -> str:
    worlds = ", ".join(
        sorted({f"`{each.world or each.name}`" for each in federation.spec.environments})
    )
    whose = f", as environment `{environment}` serves it" if environment else ""
    return (
        f"# {federation.metadata.name}, round {round_}\n\n"
        f"A LoRA adapter for an agent of text{whose}. The base is `{source}`,"
        f" the worlds are {worlds}.\n\n"
        f"{_render_privacy(federation).rstrip()}\n"
    )


def _render_privacy(federation: Federation) -> str:
    """What single records were protected by, or that they were not."""
    privacy = federation.spec.privacy
    if privacy is None:
        return (
            "It was trained without differential privacy: it may remember what it was trained on."
            "\n\n"
        )
    given = [line.epsilon for line in federation.status.environments if line.epsilon is not None]
    most = f"at most {max(given):.3g}" if given else "not reported yet"
    return (
        f"Each silo trained with differential privacy for every {privacy.unit} of its own: epsilon "
        f"is {most} at a delta of {privacy.delta:g}, by the silos' own word.\n\n"
    )


def _render_format(tokens: TokenizerPrompts | None) -> str:
    if tokens is None:
        return (
            "The chat template is that of the base's tokenizer. Without one, an observation is\n"
            "followed by a newline and `> `, and an action by the end token and a newline.\n"
        )
    shown = _render_dialogue(tokens)
    if shown is None:
        return "The chat template is that of the base's tokenizer.\n"
    return (
        "An observation, an action and the next observation, up to where the agent writes:\n\n"
        f"```text\n{shown}\n```\n"
    )


def _render_code(source: str, tokens: TokenizerPrompts | None, adapter: str) -> str:
    """Lines of Python; they need no more of Hansa than the folder of a builtin base."""
    is_found = source.startswith(("builtin:", "path:", "hf:"))
    remark = "" if is_found else f"  # your copy of {source}"
    place = "  # the folder of this file" if adapter == "." else ""
    lines = [
        "from peft import PeftModel",
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
        "",
        f"source = {render_base_code(source)}{remark}",
        "tokenizer = AutoTokenizer.from_pretrained(source)",
        "base = AutoModelForCausalLM.from_pretrained(source)",
        f"agent = PeftModel.from_pretrained(base, {json.dumps(adapter)}).eval(){place}",
        "",
        f"observation = {json.dumps(FIRST)}",
        *_render_prompt_lines(tokens),
        'prompt = tokenizer(text, add_special_tokens=False, return_tensors="pt")',
        "written = agent.generate(**prompt, max_new_tokens=64, do_sample=False)",
        'answer = written[0, prompt["input_ids"].shape[1] :]',
        "print(tokenizer.decode(answer, skip_special_tokens=True))",
    ]
    if source.startswith("builtin:"):
        lines[:0] = ["from importlib.resources import files", ""]
    if revision := base_name(source).revision:
        at = f"from_pretrained(source, revision={json.dumps(revision)})"
        lines = [line.replace("from_pretrained(source)", at) for line in lines]
    return "\n".join(lines)


def render_base_code(source: str) -> str:
    """Python for what `from_pretrained` takes; a base that nobody but you can find is `base`."""
    scheme, _, rest = source.partition(":")
    if scheme == "builtin":
        return f'files("hansa_client") / "models" / "builtin" / {json.dumps(rest)}'
    if scheme == "path":
        folder = Path(rest).expanduser()
        return json.dumps(str(folder.absolute() if folder.is_dir() else folder))
    return json.dumps(base_name(source).name if scheme == "hf" else "base")


def _render_prompt_lines(tokens: TokenizerPrompts | None) -> list[str]:
    plain = 'text = observation + "\\n> "'
    turns = 'messages = [{"role": "user", "content": observation}]'
    how = "tokenize=False, add_generation_prompt=True"
    applied = f"text = tokenizer.apply_chat_template(messages, {how})"
    if tokens is None:
        return [turns, "if tokenizer.chat_template:", f"    {applied}", "else:", f"    {plain}"]
    return [turns, applied] if tokens.template else [plain]


def _render_auto_class(source: str, adapter: str) -> str:
    if not source.startswith(("path:/", "hf:")):
        return ""
    given = "folder" if adapter == "." else json.dumps(adapter)
    return f"\n`AutoPeftModelForCausalLM.from_pretrained({given})` finds the base on its own.\n"


# -- the base's tokenizer, read without any library for models -------------------------------------


def _read_tokens(source: str) -> TokenizerPrompts | None:
    """What the base's files say; None where the base is not on this machine."""
    folder = find_local_folder(source)
    if folder is None:
        return None
    try:
        config = json.loads((folder / "tokenizer_config.json").read_text())
        specials = {k: _get_token_text(v) for k, v in config.items() if k.endswith("_token")}
        template = config.get("chat_template") or ""
        with suppress(FileNotFoundError):
            template = (folder / "chat_template.jinja").read_text()
    except (OSError, ValueError, AttributeError):
        return None
    return TokenizerPrompts(template, specials) if isinstance(template, str) else None


def find_local_folder(source: str) -> Path | None:
    """Where a base lies on this machine; None where it does not."""
    scheme, _, rest = source.partition(":")
    if scheme == "path":
        return Path(rest).expanduser()
    spec = find_spec("hansa_client") if scheme == "builtin" else None
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "models" / "builtin" / rest


def _get_token_text(token: Any) -> str:
    """A special token's text: files have it bare, or as an object."""
    return str((token.get("content") if isinstance(token, dict) else token) or "")


def _render_dialogue(tokens: TokenizerPrompts) -> str | None:
    """Two observations and an action as the agent reads them, or None if the template fails."""
    if not tokens.template:
        end = tokens.specials.get("eos_token", "")
        return _PLAIN.format(first=FIRST, action=ACTION, end=end, next=NEXT)
    messages = [
        {"role": "user", "content": FIRST},
        {"role": "assistant", "content": ACTION},
        {"role": "user", "content": NEXT},
    ]
    try:
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        rules = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        with guard_template(tokens.template):
            template = rules.from_string(tokens.template)
            return template.render(messages=messages, add_generation_prompt=True, **tokens.specials)
    except Exception:  # no jinja2 here, or a template that wants more than turns or time
        return None
