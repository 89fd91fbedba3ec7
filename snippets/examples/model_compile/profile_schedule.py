"""What the profiler's schedule doesn't know

The schedule that the trainer uses, asked what it does at each step, with and without its limit of
one recording. Then a run whose windows change at a step that it records, with no warm-up before.
"""

import gzip
import json
import re
from pathlib import Path

import torch

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
RESIZE_AT = 5


def actions() -> list[list]:
    """What the schedule says at each step, as it is and without `repeat`."""
    once = torch.profiler.schedule(**train_gpt.PROFILE_SCHEDULE)
    again = torch.profiler.schedule(**train_gpt.PROFILE_SCHEDULE | {"repeat": 0})
    return [[step, once(step).name, again(step).name] for step in range(12)]


def main() -> None:
    measure.table("actions", ["step", "as the trainer has it", "with repeat=0"], actions())
    device = torch.device(measure.device())
    config = train_gpt.PRESETS["tiny"]
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    batch = next(train_gpt.data_stream(files, config, device))
    model = train_gpt.compile_model(train_gpt.build_model(config, device), config)
    first, second = (stage.windows for stage in config.stages)
    with train_gpt.profiler(Path()) as trace:
        for step in range(train_gpt.PROFILE_STEPS):
            model(*batch, second if step >= RESIZE_AT else first).backward()
            trace.step()
    events = json.loads(gzip.decompress(Path("trace.json.gz").read_bytes()))["traceEvents"]
    names = [event["name"] for event in events if event.get("ph") == "X"]
    compiling = [name for name in names if re.search("entire_frame_compile|compile_inner", name)]
    regions = sorted({name for name in names if name.startswith("Torch-Compiled Region")})
    measure.metric("compile_spans", len(compiling), "spans")
    measure.table("regions", ["span", "times"], [[name, names.count(name)] for name in regions])


if __name__ == "__main__":
    main()
