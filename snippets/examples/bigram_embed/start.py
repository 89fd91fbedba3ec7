"""The table learns first, and a row moves on alone

A fresh table is all zeros. Which of the block's two weights gets a gradient at which step? Then one
row of a small table gets a gradient once and never again: Adam's averages go on moving it.
"""

import torch

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="bigram-embed",
    devices=["cpu"],
    main=False,
    limit_s=300,
    cache="shared",
    data=["sotu"],
    raises=None,
    heavy=False,
)
STEPS = 20


def first_gradients(device: torch.device) -> None:
    """Reports both gradients of the block in the first two steps of training."""
    config = train_gpt.PRESETS["tiny"]
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    stream = train_gpt.data_stream(files, config, device)
    model = train_gpt.build_model(config, device)
    optimizer = train_gpt.MuonAndAdam(model, config)
    rows = []
    for step in range(2):
        model(*next(stream), config.stages[0].windows).backward()
        gradients = {
            name: getattr(model, name).grad for name in ("bigram_weight", "bigram_scalars")
        }
        sizes = {name: gradient.abs().max().item() for name, gradient in gradients.items()}
        for name, size in sizes.items():
            measure.metric(f"{name}_gradient_{step}", size, "")
        rows.append([step, *(float(f"{size:.3g}") for size in sizes.values())])
        optimizer.step(step)
        optimizer.zero_grad()
    measure.table("gradients", ["step", "largest, table", "largest, scalars"], rows)


def one_row(device: torch.device) -> list[float]:
    """The first number of a row after each step; the row has a gradient in the first one only."""
    rule = train_gpt.PARAMETER_TABLE["bigram_weight"]
    config = train_gpt.Config(layers=1, width=8, heads=1, layer_pattern="L", bigram_rows=16)
    model = train_gpt.build_model(config, device)
    table = model.bigram_weight.detach()
    mean, square = (torch.zeros_like(table, dtype=torch.float32) for _ in range(2))
    lr = torch.tensor(config.adam_lr * rule.lr_scale)
    corrections = (torch.zeros(()), torch.zeros(()))
    values = []
    for step in range(1, STEPS + 1):
        model.bigram_weight.grad = None
        read = torch.tensor([3 if step == 1 else 5], device=device)
        model.bigram(read).sum().backward()
        for correction, beta in zip(corrections, rule.betas, strict=True):
            correction.fill_(1 - beta**step)
        gradient = model.bigram_weight.grad
        settings = (lr, corrections, rule.betas, config.adam_eps)
        train_gpt.adam_update(table, gradient, mean, square, *settings)
        values.append(table[3, 0].item())
    measure.metric("learning_rate", lr.item(), "")
    for name, beta in zip(("mean_beta", "square_beta"), rule.betas, strict=True):
        measure.metric(name, beta, "")
    measure.metric("untouched_row", table[7].abs().max().item(), "")
    return values


def main() -> None:
    device = torch.device(measure.device())
    first_gradients(device)
    values = one_row(device)
    labels = dict(x_label="step", y_label="first number of the row")
    measure.series("row_read_once", list(range(1, STEPS + 1)), values, **labels)
    measure.metric("after_its_step", values[0], "")
    measure.metric("at_the_end", values[-1], "")
    measure.metric("times_as_far", values[-1] / values[0], "x")


if __name__ == "__main__":
    main()
