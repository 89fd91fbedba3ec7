"""Given up until a reset

A model with a print in its loop is compiled without `fullgraph=True`; Dynamo gives up on its
`forward`. Then a clean model, which shares that code, is compiled with `fullgraph=True`.
"""

import contextlib
import io

import torch
from torch import Tensor
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
    raises=None,
    heavy=False,
)


class PrintPerLayer(train_gpt.GPT):
    def mix(self, layer: int, *tensors: Tensor) -> Tensor:
        print("layer", layer)
        return super().mix(layer, *tensors)


def main() -> None:
    device = torch.device(measure.device())
    config = train_gpt.PRESETS["tiny"]
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    batch = next(train_gpt.data_stream(files, config, device))

    def graphs(model: torch.nn.Module) -> int:
        counters.clear()
        with contextlib.redirect_stdout(io.StringIO()):
            model(*batch, config.stages[0].windows)
        return counters["stats"]["unique_graphs"]

    def clean() -> torch.nn.Module:
        return train_gpt.compile_model(train_gpt.build_model(config, device), config)

    broken = train_gpt.build_model(config, device, cls=PrintPerLayer)
    found = {
        "broken": graphs(torch.compile(broken, dynamic=False, fullgraph=False)),
        "clean_after_broken": graphs(clean()),
    }
    torch._dynamo.reset()
    found["clean_after_reset"] = graphs(clean())
    for name, count in found.items():
        measure.metric(f"{name}_graphs", count, "graphs")


if __name__ == "__main__":
    main()
