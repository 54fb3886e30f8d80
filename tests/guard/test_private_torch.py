"""Functions of torch that promise nothing: which are called, and with which version they fit.

A newer torch may change any of them without a word. Each is called as torch itself calls it, and
tests compare the results with those of public functions; here is what to do when torch moves on.
"""

import ast

import pytest

from tests.support.sources import ROOT, nodes

CHECKED = "2.11"
"""Version of torch whose private functions were last compared with the public ones."""
EQUALS = "tests/unit/hansa_client/models/test_builtin.py tests/unit/hansa_client/training"
PRIVATE = {
    "torch._foreach_add_": "torch/optim/adamw.py calls it; else `for step in steps: step += 1`",
    "torch._fused_adamw_": "torch/optim/adamw.py calls it; else torch.optim.AdamW(fused=True)",
    "torch._C._set_deterministic_algorithms": "else torch.use_deterministic_algorithms",
    "torch.ops.aten._flash_attention_forward": "else torch.nn.attention.varlen.varlen_attn",
    "torch.ops.aten._flash_attention_backward": "else torch.nn.attention.varlen.varlen_attn",
}
"""Each private function, and what to look at or call where it has changed."""
SCHEMAS = {
    "_foreach_add_.Scalar": "(Tensor(a!)[] self, Scalar scalar) -> ()",
    "_foreach_add_.List": "(Tensor(a!)[] self, Tensor[] other, *, Scalar alpha=1) -> ()",
    "_fused_adamw_.default": (
        "(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, "
        "Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, "
        "float lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, "
        "bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()"
    ),
    "_flash_attention_forward.default": (
        "(Tensor query, Tensor key, Tensor value, Tensor? cum_seq_q, Tensor? cum_seq_k, "
        "SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, bool return_debug_mask, *, "
        "float? scale=None, SymInt? window_size_left=None, SymInt? window_size_right=None, "
        "Tensor? seqused_k=None, Tensor? alibi_slopes=None) -> (Tensor output, "
        "Tensor softmax_logsumexp, Tensor rng_state, Tensor unused, Tensor debug_attn_mask)"
    ),
    "_flash_attention_backward.default": (
        "(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, "
        "Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, "
        "float dropout_p, bool is_causal, Tensor rng_state, Tensor unused, *, "
        "float? scale=None, SymInt? window_size_left=None, SymInt? window_size_right=None) "
        "-> (Tensor, Tensor, Tensor)"
    ),
}
"""What the operators take and give."""


def called() -> set[str]:
    """Private names of torch in the client, as `torch._C._set...`."""
    names = set()
    for file in (ROOT / "client_image").rglob("*.py"):
        for node in nodes(file):
            name = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
            last = name.rpartition(".")[2]
            if name.startswith("torch.") and last.startswith("_") and not last.startswith("__"):
                names.add(name)
    return names - {"torch._C"}


def test_every_private_function_of_torch_is_known_here() -> None:
    assert called() == set(PRIVATE)


def test_torch_is_the_version_that_they_were_checked_with() -> None:
    import torch

    installed = ".".join(torch.__version__.split(".")[:2])
    hints = "\n".join(f"  {name}: {hint}" for name, hint in PRIVATE.items())
    assert installed == CHECKED, (
        f"torch is {installed}; its private functions were last checked with {CHECKED}.\n"
        f"Run `pytest {EQUALS}` and, on a machine with a GPU, the tests of packing there.\n"
        f"Where they pass, write {installed} into CHECKED. Where one fails:\n{hints}"
    )


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_operator_takes_and_gives_what_it_did(name: str) -> None:
    import torch

    operator, _, overload = name.partition(".")
    found = str(getattr(getattr(torch.ops.aten, operator), overload)._schema)
    hint = PRIVATE.get(f"torch.ops.aten.{operator}") or PRIVATE[f"torch.{operator}"]
    assert found[found.index("(") :] == SCHEMAS[name], f"aten::{name} has changed: {hint}"
