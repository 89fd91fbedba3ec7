"""One pair of windows too many

With `dynamic=False` every new pair of windows is a variant of its own, and Dynamo keeps 8 of one
function. `set_dynamo_limits`, which the trainer calls first, is left out here. First without
`fullgraph=True` and with the backend `eager`, which makes no kernels; then as the trainer compiles.
"""

import dataclasses

import torch
from torch import nn
from torch._dynamo.utils import counters

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="model-compile",
    devices=["cpu"],
    main=False,
    limit_s=240,
    cache="shared",
    data=["sotu"],
    raises=("torch._dynamo.exc.FailOnRecompileLimitHit", "Hard failure due to fullgraph=True"),
    heavy=False,
)


@torch.no_grad()
def widen(model: nn.Module, batch: train_gpt.Batch) -> None:
    """Calls the model with twelve pairs of windows, one after the other."""
    for count, window in enumerate(range(16, 208, 16), 1):
        print(f"pair {count}:", end=" ", flush=True)
        model(*batch, (window, window))
        print(f"{counters['stats']['unique_graphs']} graphs", flush=True)


def main() -> None:
    device = torch.device(measure.device())
    tiny = train_gpt.PRESETS["tiny"]
    config = dataclasses.replace(tiny, layers=1, layer_pattern="S")  # one layer: quick to compile
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    batch = next(train_gpt.data_stream(files, config, device))
    model = train_gpt.build_model(config, device)
    print("recompile_limit is", torch._dynamo.config.recompile_limit)
    print("without fullgraph=True")
    widen(torch.compile(model, dynamic=False, backend="eager"), batch)
    torch._dynamo.reset()
    counters.clear()
    print("as the trainer compiles")
    widen(train_gpt.compile_model(model, config), batch)


if __name__ == "__main__":
    main()
