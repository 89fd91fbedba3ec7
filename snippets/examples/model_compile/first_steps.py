"""The first ten steps

Ten training steps, timed one by one in a fresh process: once with empty compile caches, then again
in a second process that finds the caches which the first one left. Each pair is repeated.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import torch
from torch._dynamo.utils import counters, get_compilation_metrics

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="model-compile",
    devices=["cpu", "h200"],
    main=False,
    limit_s=600,
    cache="private",
    data=["sotu"],
    raises=None,
    heavy=False,
)
STEPS = 10
PAIRS = 2


def train() -> None:
    """Run ten steps in this process and print what each cost and compiled, as one line of JSON."""
    device = torch.device(measure.device())
    config = train_gpt.PRESETS["speedrun" if device.type == "cuda" else "tiny"]
    model = train_gpt.build_model(config, device)
    optimizer = train_gpt.MuonAndAdam(model, config)
    model = train_gpt.compile_model(model, config)
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    stream = train_gpt.data_stream(files, config, device)
    step_ms: list[float] = []
    compiled: dict[
        str, list
    ] = {}  # by region and part; tuning a kernel at its first run adds to it
    functions: dict[str, str] = {}  # by region; the event of a backward doesn't name it
    seen = 0
    for step in range(STEPS):
        start = time.perf_counter()
        train_gpt.train_step(model, optimizer, stream, config, step).item()  # waits for the device
        step_ms.append(1000 * (time.perf_counter() - start))
        for event in get_compilation_metrics()[seen:]:
            seen += 1
            part = "forward" if event.is_forward else "backward"
            function = functions.setdefault(event.compile_id, event.co_name)
            row = [step, event.compile_id, function, part, 0.0]
            row = compiled.setdefault(f"{event.compile_id} {part}", row)
            row[-1] = round(row[-1] + event.duration_us / 1e6, 2)
    hits = counters["inductor"]["fxgraph_cache_hit"]
    print(json.dumps({"step_ms": step_ms, "compiled": compiled, "hits": hits}))


def in_new_process(caches: Path) -> dict:
    """Run `train` in a fresh interpreter that keeps its compiled code under `caches`."""
    env = os.environ | {
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
    }
    command = [sys.executable, __file__, "train"]
    run = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(run.stdout.splitlines()[-1])


def main() -> None:
    runs = {"cold": [], "warm": []}
    for _ in range(measure.rounds(PAIRS)):
        with tempfile.TemporaryDirectory() as folder:
            for caches in runs:
                runs[caches].append(in_new_process(Path(folder)))
    for caches, results in runs.items():
        by_step = list(zip(*(result["step_ms"] for result in results), strict=True))
        measure.metric(f"{caches}_first_step_s", [ms / 1000 for ms in by_step[0]], "s")
        measure.metric(f"{caches}_later_step_ms", [ms for step in by_step[3:] for ms in step], "ms")
        measure.metric(f"{caches}_cache_hits", results[-1]["hits"], "graphs")
        medians = [median(step) for step in by_step]
        measure.series(
            f"{caches}_step_ms", list(range(STEPS)), medians, x_label="step", y_label="ms"
        )

    def seconds(caches: str, name: str) -> float | None:
        found = [run["compiled"][name][-1] for run in runs[caches] if name in run["compiled"]]
        return median(found) if found else None  # a backward may come with its forward, unseen

    first = runs["cold"][0]["compiled"]
    rows = [[*row[:4], seconds("cold", name), seconds("warm", name)] for name, row in first.items()]
    columns = ["step", "region", "function", "part", "cold s (median)", "warm s (median)"]
    measure.table("compiled", columns, rows)
    steps = sorted({row[0] for row in rows})
    print(f"{len(rows)} graphs compiled with empty caches, in step {', '.join(map(str, steps))}")


if __name__ == "__main__":
    train() if sys.argv[1:] == ["train"] else main()
