"""What the gate is worth when it may open

Short training runs on a dictionary's text, on the same batches: without the gate, with the scalar
at the parameter table's rate, and with it at the rate of the model's other single numbers. Three
seeds of the initial weights for each.
"""

import dataclasses

import torch

from fba_lab import measure, resume
from snippets import train_gpt

LAB = dict(
    block="smear-gate",
    devices=["h200"],
    main=False,
    limit_s=900,
    cache="shared",
    data=["webster"],
    raises=None,
    heavy=True,
)
STEPS, SEEDS = 100, 3
FIRST = train_gpt.STAGES["speedrun"][0]
CONFIG = dataclasses.replace(
    train_gpt.PRESETS["speedrun"],
    steps=STEPS,
    stages=(FIRST._replace(share=1.0),),
    momentum_rise=20,
    momentum_fall=3,
    val_tokens=1 << 20,
)
OFF = dataclasses.replace(CONFIG, without=frozenset({"smear-gate"}))
RULES = train_gpt.PARAMETER_TABLE
TABLE_RATE = RULES["smear_scalar"]
RAISED_RATE = TABLE_RATE._replace(lr_scale=RULES["attention_scalars"].lr_scale)
VARIANTS = {
    "off": (OFF, TABLE_RATE),
    "table": (CONFIG, TABLE_RATE),
    "raised": (CONFIG, RAISED_RATE),
}


def train(config: train_gpt.Config, rule: train_gpt.Rule, seed: int) -> dict[str, float | None]:
    """One run: the validation loss at its end, and the scalar."""
    device = torch.device(measure.device())
    train_gpt.PARAMETER_TABLE["smear_scalar"] = rule
    folder = measure.data("webster")
    stream = train_gpt.data_stream(train_gpt.shard_files(folder, "train"), config, device)
    model = train_gpt.build_model(config, device, seed=seed)
    optimizer = train_gpt.MuonAndAdam(model, config)
    compiled = train_gpt.compile_model(model, config)
    for step in range(STEPS):
        train_gpt.train_step(compiled, optimizer, stream, config, step)
    val_files, windows = train_gpt.shard_files(folder, "val"), FIRST.windows
    loss = train_gpt.validate(compiled, val_files, config, device, windows)
    return {"loss": loss, "scalar": model.smear_scalar.item() if model.use_smear else None}


def main() -> None:
    train_gpt.set_dynamo_limits()
    found: dict[str, list[dict]] = {name: [] for name in VARIANTS}
    for seed in range(SEEDS):
        for name, (config, rule) in VARIANTS.items():
            torch._dynamo.reset()  # each run has a model of its own
            run = resume.part(f"{name}-{seed}", lambda c=config, r=rule, s=seed: train(c, r, s))
            found[name].append(run)
            print(f"seed {seed}, {name}: validation loss {run['loss']:.4f}", flush=True)
    losses = {name: [run["loss"] for run in runs] for name, runs in found.items()}
    for name, values in losses.items():
        measure.metric(f"{name}_loss", values, "nats")
        if name != "off":
            gained = [a - b for a, b in zip(values, losses["off"], strict=True)]
            measure.metric(f"{name}_minus_off", gained, "nats")
            measure.metric(f"{name}_scalar", [run["scalar"] for run in found[name]], "")
    rows = [
        [name, seed, run["loss"], run["scalar"]]
        for name, runs in found.items()
        for seed, run in enumerate(runs)
    ]
    measure.table("runs", ["variant", "seed", "validation loss", "smear_scalar"], rows)


if __name__ == "__main__":
    main()
