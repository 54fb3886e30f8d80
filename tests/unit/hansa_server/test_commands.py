"""`hansa aggregate` and `hansa inspect`: adapters from folders, any PEFT's, without a cluster."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hansa.adapter import lora, tensor_file
from hansa.api import bucket_keys
from hansa.api.spec import Adapter
from hansa_server.offline import OFFLINE
from tests.support import dense
from tests.support.commands import hansa
from tests.support.merging import draw, draw_moments, make_shapes, read

SIZES = (30, 40), (64, 20)


def folder(path: Path, rank: int, seed: int, alpha: int = 16, **config: Any) -> Path:
    path.mkdir()
    tensors = draw(seed, make_shapes(rank, *SIZES))
    (path / bucket_keys.ADAPTER).write_bytes(lora.encode(tensors))
    made = lora.render_config(Adapter(rank=rank, alpha=alpha), "hf:a/b", lora.target_names(tensors))
    (path / bucket_keys.CONFIG).write_text(json.dumps({**json.loads(made), **config}))
    return path


@pytest.fixture
def five(tmp_path: Path) -> list[Path]:
    made = [folder(tmp_path / f"adapter-{seed}", 4, seed) for seed in range(5)]
    for seed, path in enumerate(made):
        own = draw_moments(seed, make_shapes(4, *SIZES))
        (path / bucket_keys.MOMENTS).write_bytes(tensor_file.encode(own))
    return made


def weights_of(path: Path) -> dict[str, Any]:
    """What the adapter adds to each layer's weights."""
    config = json.loads((path / bucket_keys.CONFIG).read_text())
    root = np.sqrt(config["r"]) if config.get("use_rslora") else config["r"]
    tensors = read(path / bucket_keys.ADAPTER)
    scale = config["lora_alpha"] / root
    return {module: scale * dense.product(tensors, module) for module in dense.modules(tensors)}


@pytest.mark.parametrize("strategy", OFFLINE)
def test_every_strategy_merges_folders_in_any_order(five, tmp_path, strategy, capsys):
    assert hansa("aggregate", "--strategy", strategy, "--out", tmp_path / "out", *five) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == str(tmp_path / "out")
    assert "adapter-3" in said.out
    shuffled = [five[i] for i in (3, 1, 0, 4, 2)]
    assert hansa("aggregate", "--strategy", strategy, "--out", tmp_path / "again", *shuffled) == 0
    for name in (bucket_keys.ADAPTER, bucket_keys.CONFIG):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


@pytest.mark.parametrize("strategy", ["svd", "flora"])
def test_unequal_ranks_and_scales_are_merged_with_weights_in_the_order_given(
    tmp_path, strategy, capsys
):
    given = [
        folder(tmp_path / "z", 4, 1),
        folder(tmp_path / "a", 8, 2, alpha=8),
        folder(tmp_path / "m", 2, 3, use_rslora=True),
    ]
    out = tmp_path / "out"
    arguments = ["--strategy", strategy, "--weights", "1,2,3", "--out", out, "-o", "json"]
    assert hansa("aggregate", *arguments, *given) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["rank"] == (8 if strategy == "svd" else 14)
    for module, got in weights_of(out).items():
        parts = [weights_of(path)[module] for path in given]
        expected = np.average(parts, axis=0, weights=[1, 2, 3])
        if strategy == "svd":
            expected = dense.best(expected, 8)
        np.testing.assert_allclose(got, expected, atol=1e-5 * np.abs(expected).max())
    if strategy == "flora":
        assert printed["diagnostics"]["error"] < 1e-6


@pytest.mark.parametrize("strategy, rank", [("svd", 3), ("svd", 9), ("flora", 5)])
def test_a_rank_is_kept(five, tmp_path, strategy, rank):
    out = tmp_path / "out"
    assert hansa("aggregate", "--strategy", strategy, "--rank", rank, "--out", out, *five) == 0
    assert json.loads((out / bucket_keys.CONFIG).read_text())["r"] == rank
    for module, got in weights_of(out).items():
        exact = np.mean([weights_of(path)[module] for path in five], axis=0)
        expected = dense.best(exact, rank)
        np.testing.assert_allclose(got, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_adapters_of_half_floats_are_merged_in_fp32(tmp_path, dtype):
    import torch
    from safetensors.torch import load_file, save_file

    given = [folder(tmp_path / name, 4, seed) for seed, name in enumerate("ab")]
    for path in given:
        tensors = load_file(path / bucket_keys.ADAPTER)
        save_file(
            {n: t.to(getattr(torch, dtype)) for n, t in tensors.items()}, path / bucket_keys.ADAPTER
        )
    assert hansa("aggregate", "--no-diagnostics", "--out", tmp_path / "out", *given) == 0
    loaded = [load_file(path / bucket_keys.ADAPTER) for path in given]
    for name, array in read(tmp_path / "out" / bucket_keys.ADAPTER).items():
        expected = (loaded[0][name].float() + loaded[1][name].float()) / 2
        np.testing.assert_allclose(array, expected.numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        pytest.param(["--strategy", "fedadam"], "--strategy: got fedadam", id="needs rounds"),
        pytest.param(["--weights", "1,2"], "--weights: got 2, expected 5", id="too few weights"),
        pytest.param(["--weights", "a"], "--weights: got 'a'", id="no numbers"),
        pytest.param(["--weights", "0,0,0,0,0"], "one above 0", id="no weight"),
        pytest.param(["--weights", "1,1,1,1,nan"], "0 or more", id="NaN"),
        pytest.param(["--strategy", "median", "--weights", "1,1,1,1,1"], "median", id="median"),
        pytest.param(["--rank", "3"], "--rank: got it with mean", id="rank of a mean"),
    ],
)
def test_a_wrong_option_is_named(five, tmp_path, capsys, arguments, sentence):
    assert hansa("aggregate", *arguments, "--out", tmp_path / "out", *five) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_adapters_that_do_not_fit_are_named(five, tmp_path, capsys):
    odd = folder(tmp_path / "odd", 8, 9)
    assert hansa("aggregate", "--out", tmp_path / "out", *five, odd) == 2
    assert "needs equal ranks" in capsys.readouterr().err
    dora = folder(tmp_path / "dora", 4, 9, use_dora=True)
    assert hansa("aggregate", "--out", tmp_path / "out", dora) == 2
    assert "DoRA" in capsys.readouterr().err
    assert hansa("aggregate", "--out", five[0], *five) == 2
    assert "--out: got" in capsys.readouterr().err
    (five[1] / bucket_keys.ADAPTER).write_bytes(b"PK\x03\x04 what torch.save writes")
    assert hansa("aggregate", "--out", tmp_path / "out", *five) == 2
    assert "adapter-1" in capsys.readouterr().err


@pytest.mark.parametrize("strategy", ["mean", "svd", "median"])
def test_an_adapter_with_a_nan_is_named(five, tmp_path, capsys, strategy):
    tensors = read(five[2] / bucket_keys.ADAPTER)
    tensors[min(tensors)][0, 0] = np.nan
    (five[2] / bucket_keys.ADAPTER).write_bytes(lora.encode(tensors))
    assert hansa("aggregate", "--strategy", strategy, "--out", tmp_path / "out", *five) == 2
    assert "adapter-2: got values that are infinite" in capsys.readouterr().err
    assert hansa("inspect", five[2], "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["finite"] is False


def test_inspect_tells_rank_layers_norm_and_digest(five, capsys):
    assert hansa("inspect", five[0], "-o", "json") == 0
    printed = json.loads(capsys.readouterr().out)
    norm = np.sqrt(sum(np.sum(change**2) for change in weights_of(five[0]).values()))
    assert printed["norm"] == pytest.approx(norm, rel=1e-6)
    assert (printed["rank"], printed["alpha"], printed["dtype"]) == (4, 16, "F32")
    assert printed["targets"] == ["model.layers.0.proj", "model.layers.1.proj"]
    assert hansa("inspect", five[0]) == 0
    assert printed["sha256"] in capsys.readouterr().out
    assert hansa("inspect", five[0] / "nowhere") == 2


def test_regmean_takes_the_moments_beside_each_adapter(tmp_path, capsys):
    given = [folder(tmp_path / "a", 4, 1), folder(tmp_path / "b", 8, 2)]
    own = []
    for seed, path in enumerate(given):
        shapes = lora.shapes(read(path / bucket_keys.ADAPTER))
        own.append(draw_moments(seed, shapes, 16))
        (path / bucket_keys.MOMENTS).write_bytes(tensor_file.encode(own[-1]))
    out = tmp_path / "out"
    arguments = ["aggregate", "--strategy", "regmean", "-o", "json", *given]
    assert hansa(*arguments, "--out", out) == 0
    assert json.loads(capsys.readouterr().out)["rank"] == 12
    tensors = [read(path / bucket_keys.ADAPTER) for path in given]
    halved = {n: a * (0.5 if "lora_B" in n else 1.0) for n, a in tensors[1].items()}  # 16 / 8
    merged = read(out / bucket_keys.ADAPTER)
    for module in dense.modules(merged):
        expected = dense.regmean([tensors[0], halved], own, module)
        got = dense.product(merged, module)
        assert np.linalg.norm(got - expected) < 1e-5 * np.linalg.norm(expected)


def test_regmean_without_moments_says_which_are_missing(five, tmp_path, capsys):
    (five[0] / bucket_keys.MOMENTS).unlink()
    assert hansa("aggregate", "--strategy", "regmean", "--out", tmp_path / "out", *five) == 2
    assert "moments.safetensors" in capsys.readouterr().err
    (five[0] / bucket_keys.MOMENTS).write_bytes(b"broken")
    assert hansa("aggregate", "--strategy", "regmean", "--out", tmp_path / "out", *five) == 2
    assert str(five[0] / bucket_keys.MOMENTS) in capsys.readouterr().err
