"""How much is one graph

The model compiled once to count what PyTorch records of it, operation by operation, with the
function of the trainer that each stands in; and once as the trainer does it, to count what is
launched. Then one step of the optimizer, to see what is compiled outside that graph.
"""

import inspect
import re
from collections import Counter
from unittest.mock import patch

import torch
from functorch.compile import make_boxed_func
from torch._dynamo import utils
from torch._dynamo.backends.common import aot_autograd
from torch._inductor.graph import GraphLowering

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="model-compile",
    devices=["cpu", "h200"],
    main=False,
    limit_s=300,
    cache="shared",
    data=["sotu"],
    raises=None,
    heavy=False,
)
LAUNCHES = {
    "fused by Inductor": r"\b((?:triton|cpp)_\w*fused_\w+)(?:\.run)?\(",
    "matrix product": r"\bextern_kernels\.(\w*mm\w*)\(",
    "attention": r"\btorch\.ops\.\w+\.(\w*att(?:ention|n)\w*)[.\w]*\(",
    "other ATen call": r"\b(?:torch\.ops\.)?aten\.((?!\w*attention)\w+)[.\w]*\(",
}


def function_of(node: torch.fx.Node) -> str:
    """The function of the trainer that the operation, or the one it is the gradient of, is from."""
    trace = node.meta.get("stack_trace") or ""
    frames = re.findall(r'train_gpt\.py", line (\d+), in (\w+)', trace)
    if not frames:
        return "(added by autograd)"
    line, name = int(frames[-1][0]), frames[-1][1]
    code, start = inspect.getsourcelines(train_gpt.Attention.forward)
    return "Attention.forward" if start <= line < start + len(code) else name


def operations(model: train_gpt.GPT, *inputs: object) -> dict[str, Counter]:
    """Operations of the forward and the backward graph, counted by function of the trainer."""
    found: dict[str, Counter] = {}

    def keep(part: str):
        def compiler(graph: torch.fx.GraphModule, _: list):
            nodes = [node for node in graph.graph.nodes if node.op == "call_function"]
            found[part] = Counter(map(function_of, nodes))
            return make_boxed_func(graph.forward)

        return compiler

    backend = aot_autograd(fw_compiler=keep("forward"), bw_compiler=keep("backward"))
    torch.compile(model, dynamic=False, fullgraph=True, backend=backend)(*inputs).backward()
    return found


def launched(code: str) -> dict[str, Counter]:
    """What the generated code calls, by kind and name; each kernel's own source is left out."""
    calls = code[code.index("def call(") :]
    return {kind: Counter(re.findall(pattern, calls)) for kind, pattern in LAUNCHES.items()}


def main() -> None:
    device = torch.device(measure.device())
    config = train_gpt.PRESETS["speedrun" if device.type == "cuda" else "tiny"]
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    batch = next(train_gpt.data_stream(files, config, device))
    windows = config.stages[0].windows
    model = train_gpt.build_model(config, device)

    parts = operations(model, *batch, windows)
    names = sorted(parts["forward"] | parts["backward"], key=lambda name: -parts["forward"][name])
    rows = [[name, parts["forward"][name], parts["backward"][name]] for name in names]
    measure.table("operations", ["function", "forward", "backward"], rows)

    utils.counters.clear()
    with patch.object(GraphLowering, "save_output_code", (codes := []).append):
        train_gpt.compile_model(model, config)(*batch, windows).backward()
    measure.metric("graphs", utils.counters["stats"]["unique_graphs"], "graphs")
    kinds = dict(zip(parts, map(launched, codes), strict=True))
    rows = []
    for kind in LAUNCHES:
        calls = [kinds[part][kind] for part in parts]
        rows.append([kind, *(n for c in calls for n in (c.total(), len(c)))])
    columns = ["kind", "forward calls", "different", "backward calls", "different"]
    measure.table("launches", columns, rows)
    for part in parts:
        measure.metric(f"{part}_operations", parts[part].total(), "operations")
        measure.metric(f"{part}_calls", sum(c.total() for c in kinds[part].values()), "calls")
        measure.metric(f"{part}_attention", kinds[part]["attention"].total(), "calls")
    measure.metric("layers", config.layers, "layers")

    before = len(utils.get_compilation_metrics())
    train_gpt.MuonAndAdam(model, config).step(0)
    events = utils.get_compilation_metrics()[before:]
    functions = Counter(e.co_name for e in events if e.co_name and e.graph_op_count)
    measure.table("outside", ["function", "graphs"], [list(item) for item in functions.items()])


if __name__ == "__main__":
    main()
