"""What a graph break costs

Forward and backward on one micro-batch: the model as it is, with one print behind the embedding,
with a print before every layer, and with an `.item()`, which stays in the graph but makes the
processor wait for the device. A few passes of each in turn.
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
    devices=["cpu", "h200"],
    main=False,
    limit_s=600,
    cache="shared",
    data=["sotu"],
    raises=None,
    heavy=False,
)
TURNS = 8
PASSES = 4


class OnePrint(train_gpt.GPT):
    def embed(self, inputs_T: Tensor) -> Tensor:
        x_TD = super().embed(inputs_T)
        print("embedded", x_TD.shape)
        return x_TD


class PrintPerLayer(train_gpt.GPT):
    def mix(self, layer: int, *tensors: Tensor) -> Tensor:
        print("layer", layer)
        return super().mix(layer, *tensors)


class OneItem(train_gpt.GPT):
    def embed(self, inputs_T: Tensor) -> Tensor:
        x_TD = super().embed(inputs_T)
        return x_TD + 0 * x_TD.sum().item()


def main() -> None:
    device = torch.device(measure.device())
    config = train_gpt.PRESETS["speedrun" if device.type == "cuda" else "tiny"]
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    batch = next(train_gpt.data_stream(files, config, device))
    windows = config.stages[0].windows
    train_gpt.set_dynamo_limits()  # a print in mix() makes a graph of its own for each layer

    def broken(cls: type[train_gpt.GPT]) -> torch.nn.Module:
        model = train_gpt.build_model(config, device, cls=cls)
        return torch.compile(model, dynamic=False, fullgraph=False)

    def whole(cls: type[train_gpt.GPT]) -> torch.nn.Module:
        return train_gpt.compile_model(train_gpt.build_model(config, device, cls=cls), config)

    models = {
        "whole": whole(train_gpt.GPT),
        "one_print": broken(OnePrint),
        "print_per_layer": broken(PrintPerLayer),
        "item": whole(OneItem),
    }
    ms: dict[str, list[float]] = {name: [] for name in models}
    graphs = {}
    for turn in range(1 + TURNS):
        for name, model in models.items():
            before = counters["stats"]["unique_graphs"]
            with contextlib.redirect_stdout(io.StringIO()):
                times = measure.timed(
                    lambda model=model: model(*batch, windows).backward(),
                    warmup=0,
                    repeats=PASSES,
                    device=device.type,
                )
            if turn == 0:  # compiles, and is not counted
                graphs[name] = counters["stats"]["unique_graphs"] - before
            else:
                ms[name] += times
    for name, samples in ms.items():
        measure.metric(f"{name}_graphs", graphs[name], "graphs")
        measure.metric(f"{name}_ms", samples, "ms")
        ratios = [a / b for a, b in zip(samples, ms["whole"], strict=True)]
        measure.metric(f"{name}_ratio", ratios, "x")


if __name__ == "__main__":
    main()
