"""A pattern for another depth

One layer more, and the pattern of windows left as it was.
"""

import dataclasses

from snippets import train_gpt

LAB = dict(
    block="gpt-forward",
    devices=["cpu"],
    main=False,
    limit_s=120,
    cache="shared",
    data=[],
    raises=("snippets.train_gpt.UserError", "must have 12 letters"),
    heavy=False,
)


def main() -> None:
    config = train_gpt.PRESETS["speedrun"]
    plans = train_gpt.GPT.forward.__name__, train_gpt.layer_plan(config)
    print(f"{plans[0]}() walks through {len(plans[1])} plans: {config.layer_pattern}")
    dataclasses.replace(config, layers=config.layers + 1)


if __name__ == "__main__":
    main()
