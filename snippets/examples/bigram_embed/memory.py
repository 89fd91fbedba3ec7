"""What the table weighs

The speedrun model on the device `meta`, where tensors have shapes and dtypes and no memory: bytes
of each large weight as the GPU stores it, of its gradient and of what the optimizer keeps.
"""

import torch

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="bigram-embed",
    devices=["cpu"],
    main=False,
    limit_s=120,
    cache="shared",
    data=[],
    raises=None,
    heavy=False,
)


def main() -> None:
    config = train_gpt.PRESETS["speedrun"]
    with torch.device("meta"):
        model = train_gpt.GPT(config)
        for name, weight in model.named_parameters():
            weight.data = weight.data.to(train_gpt.PARAMETER_TABLE[name].stored)
        optimizer = train_gpt.MuonAndAdam(model, config)
    total = sum(weight.numel() for weight in model.parameters())
    rows, sums = [], [0.0, 0.0]
    for name, weight in sorted(model.named_parameters(), key=lambda item: -item[1].numel()):
        stored = weight.numel() * weight.element_size() / 1e6
        kept = {
            key: one.numel() * one.element_size() / 1e6
            for key, one in optimizer.state[name].items()
        }
        sums = [sums[0] + 2 * stored + sum(kept.values()), sums[1] + kept.get("master", 0.0)]
        if weight.dim() > 1 and weight.numel() > 1e6:
            parts = [stored, stored, *(kept.get(key, 0.0) for key in ("mean", "square", "master"))]
            share = 100 * weight.numel() / total
            rows.append([name, round(share, 1), *(round(part, 1) for part in (*parts, sum(parts)))])
            measure.metric(f"{name}_share", share, "%")
            measure.metric(f"{name}_mb", sum(parts), "MB")
    measure.metric("all_mb", sums[0], "MB")
    measure.metric("weights", total, "weights")
    table = model.bigram_weight
    measure.metric("table_mb", table.numel() * table.element_size() / 1e6, "MB")
    measure.metric("table_gradient_mb", table.numel() * table.element_size() / 1e6, "MB")
    measure.metric("master_would_add_mb", 4 * table.numel() / 1e6, "MB")
    columns = [
        "weight",
        "% of all",
        "weight MB",
        "gradient MB",
        "mean MB",
        "square MB",
        "master MB",
    ]
    measure.table("memory", [*columns, "sum MB"], rows)


if __name__ == "__main__":
    main()
