"""What four blocks are worth

Short training runs on a dictionary's text: the model as it is, without one block at a time, and
with all windows wide open. Each with three seeds of the initial weights, on the same batches. The
tokens a step are those of the first stage throughout; no text comes twice.
"""

import dataclasses
import functools
from statistics import median

import torch
from torch import nn

from fba_lab import measure, resume
from snippets import train_gpt

LAB = dict(
    block="gpt-forward",
    devices=["h200"],
    main=False,
    limit_s=900,
    cache="shared",
    data=["webster"],
    raises=None,
    heavy=True,
)
STEPS, VAL_EVERY, SEEDS = 80, 20, 3
FIRST = train_gpt.STAGES["speedrun"][0]
BASELINE = dataclasses.replace(
    train_gpt.PRESETS["speedrun"],
    steps=STEPS,
    stages=(FIRST._replace(share=1.0),),
    momentum_rise=16,  # about the same share of the run as in a full one
    momentum_fall=3,
    val_tokens=1 << 19,
)
WIDE = FIRST._replace(share=1.0, window_short=2048, window_long=2048)
VARIANTS = {
    "baseline": BASELINE,
    "smear_gate": dataclasses.replace(BASELINE, without=frozenset({"smear-gate"})),
    "bigram_embed": dataclasses.replace(BASELINE, without=frozenset({"bigram-embed"})),
    "polar_express": dataclasses.replace(BASELINE, without=frozenset({"polar-express"})),
    "wide_windows": dataclasses.replace(BASELINE, stages=(WIDE,)),
}


@functools.cache
def compiled(name: str, device: torch.device) -> tuple[train_gpt.GPT, nn.Module]:
    """The model of a variant and its compiled form, used for all seeds: compiling takes long."""
    model = train_gpt.build_model(VARIANTS[name], device)
    return model, train_gpt.compile_model(model, VARIANTS[name])


@torch.no_grad()
def start_at(
    model: train_gpt.GPT, config: train_gpt.Config, seed: int, device: torch.device
) -> None:
    """Gives the model the weights that it would have been built with from this seed."""
    fresh = train_gpt.build_model(config, device, seed=seed)
    for weight, new in zip(model.parameters(), fresh.parameters(), strict=True):
        weight.copy_(new)


def train(name: str, seed: int, device: torch.device) -> dict[str, list[float]]:
    """One run: validation losses at every VAL_EVERY steps, and milliseconds of each step."""
    config, folder = VARIANTS[name], measure.data("webster")
    stream = train_gpt.data_stream(train_gpt.shard_files(folder, "train"), config, device)
    val_files = train_gpt.shard_files(folder, "val")
    plain, model = compiled(name, device)
    start_at(plain, config, seed, device)
    optimizer = train_gpt.MuonAndAdam(plain, config)
    train_gpt.warm_up(model, optimizer, stream, config, steps=1)
    found: dict[str, list[float]] = {"val": [], "step_ms": []}
    for step in range(STEPS):

        def one_step(step: int = step) -> None:
            train_gpt.train_step(model, optimizer, stream, config, step)

        found["step_ms"] += measure.timed(one_step, warmup=0, repeats=1, device=device.type)
        if (step + 1) % VAL_EVERY == 0:
            windows = train_gpt.stage_at(config, step).windows
            found["val"].append(train_gpt.validate(model, val_files, config, device, windows))
    return found


def main() -> None:
    device = torch.device(measure.device())
    train_gpt.set_dynamo_limits()
    runs: dict[str, list[dict]] = {name: [] for name in VARIANTS}
    for seed in range(SEEDS):
        for name in VARIANTS:
            run = resume.part(f"{name}-{seed}", lambda n=name, s=seed: train(n, s, device))
            runs[name].append(run)
            print(f"seed {seed}, {name}: validation loss {run['val'][-1]:.4f}", flush=True)
    steps = list(range(VAL_EVERY, STEPS + 1, VAL_EVERY))
    for name, found in runs.items():
        losses = [run["val"][-1] for run in found]
        measure.metric(f"{name}_loss", losses, "nats")
        pairs = zip(losses, (run["val"][-1] for run in runs["baseline"]), strict=True)
        if name != "baseline":
            measure.metric(f"{name}_minus_baseline", [a - b for a, b in pairs], "nats")
        measure.metric(f"{name}_step_ms", [ms for run in found for ms in run["step_ms"]], "ms")
        medians = [median(values) for values in zip(*(run["val"] for run in found), strict=True)]
        measure.series(f"{name}_val", steps, medians, x_label="step", y_label="validation loss")
    rows = [[name, *(run["val"][-1] for run in found)] for name, found in runs.items()]
    columns = ["variant", *(f"seed {seed}" for seed in range(SEEDS))]
    measure.table("losses", columns, rows)


if __name__ == "__main__":
    main()
