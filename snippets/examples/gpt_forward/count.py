"""Where the weights are

The speedrun's model on the device `meta`, where tensors have shapes and no memory: every weight,
its share, and how many of its numbers one token meets on its way through.
"""

import torch

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="gpt-forward",
    devices=["cpu"],
    main=False,
    limit_s=120,
    cache="shared",
    data=[],
    raises=None,
    heavy=False,
)
LOOKED_UP = ("embed_weight", "bigram_weight")  # a token reads one row of each
IN_PRODUCTS = ("attention_bank", "mlp_bank", "head_weight")


def main() -> None:
    config = train_gpt.PRESETS["speedrun"]
    with torch.device("meta"):
        model = train_gpt.GPT(config)
    weights = sorted(model.named_parameters(), key=lambda item: -item[1].numel())
    total, met, rows = sum(weight.numel() for _, weight in weights), 0, []
    for name, weight in weights:
        per_token = config.width if name in LOOKED_UP else weight.numel()
        met += per_token
        share = 100 * weight.numel() / total
        stored = str(train_gpt.PARAMETER_TABLE[name].stored).removeprefix("torch.")
        rows.append([name, str(tuple(weight.shape)), weight.numel(), share, per_token, stored])
        if name in LOOKED_UP + IN_PRODUCTS:
            measure.metric(f"{name}_share", share, "%")
    columns = ["weight", "shape", "numbers", "% of all", "met by a token", "on CUDA"]
    measure.table("weights", columns, [[*r[:3], round(r[3], 2), *r[4:]] for r in rows])
    sizes = {name: weight.numel() for name, weight in weights}
    measure.metric("weights", total, "numbers")
    measure.metric("met_by_a_token", met, "numbers")
    measure.metric("met_share", 100 * met / total, "%")
    layers = sizes["attention_bank"] + sizes["mlp_bank"]
    measure.metric("in_layers", layers, "numbers")
    measure.metric("layers_share", 100 * layers / total, "%")
    measure.metric("tables_share", 100 * sum(sizes[name] for name in LOOKED_UP) / total, "%")
    products = sum(sizes[name] for name in IN_PRODUCTS)
    measure.metric("head_share_of_products", 100 * sizes["head_weight"] / products, "%")


if __name__ == "__main__":
    main()
