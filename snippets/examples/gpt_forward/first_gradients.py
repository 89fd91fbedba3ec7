"""What the first backward pass reaches

A fresh model, one micro-batch, one backward pass: how much of each weight gets a gradient that
isn't zero. Then one step of the optimizer, and the same again.
"""

import torch

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="gpt-forward",
    devices=["cpu"],
    main=False,
    limit_s=240,
    cache="shared",
    data=["sotu"],
    raises=None,
    heavy=False,
)


def moving(model: train_gpt.GPT) -> dict[str, float]:
    """Percent of each weight's numbers with a gradient; a bank's MLP halves are told apart."""
    found = {}
    for name, weight in model.named_parameters():
        parts = {name: weight.grad}
        if name == "mlp_bank":
            parts = {"mlp_bank, up": weight.grad[:, 0], "mlp_bank, down": weight.grad[:, 1]}
        for part, gradient in parts.items():
            found[part] = 100 * gradient.ne(0).float().mean().item()
    return found


def main() -> None:
    device = torch.device(measure.device())
    config = train_gpt.PRESETS["tiny"]
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    batch = next(train_gpt.data_stream(files, config, device))
    windows = config.stages[0].windows
    model = train_gpt.build_model(config, device)
    optimizer = train_gpt.MuonAndAdam(model, config)
    model(*batch, windows).backward()
    first = moving(model)
    optimizer.step(0)
    optimizer.zero_grad()
    model(*batch, windows).backward()
    second = moving(model)
    rows = [[name, round(first[name], 2), round(second[name], 2)] for name in first]
    measure.table("gradients", ["weight", "% not zero, first pass", "% not zero, second"], rows)
    still = sum(value == 0 for value in first.values())
    measure.metric("without_gradient_first", still, "weights")
    measure.metric("without_gradient_second", sum(v == 0 for v in second.values()), "weights")
    measure.metric("embed_rows_first", first["embed_weight"], "%")
    measure.metric("tokens", len(batch.inputs_T.unique()), "different tokens")


if __name__ == "__main__":
    main()
