"""The first position, borders, and large tokens

What row the first token of a micro-batch reads, which rows change when the token before a BOS
does, and whether 32 bits are enough for the products of the largest tokens.
"""

import itertools

import numpy as np
import torch

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="bigram-embed",
    devices=["cpu"],
    main=False,
    limit_s=120,
    cache="shared",
    data=["sotu"],
    raises=None,
    heavy=False,
)
BORDER = 200
LARGER_FACTOR = 50_001  # times the largest token, this leaves 32 bits


def exact(tokens: list[int], rows: int, factors: tuple[int, int]) -> int:
    """The row of a pair (token before, token), with Python's unbounded integers."""
    before, now = tokens
    return ((factors[0] * now) ^ (factors[1] * before)) % (rows - 1)


def main() -> None:
    device = torch.device(measure.device())
    config = train_gpt.Config(layers=1, width=8, heads=1, layer_pattern="L", micro_tokens=512)
    tokens = train_gpt.load_shard(train_gpt.shard_files(measure.data("sotu"), "train")[0])
    text = tokens[1 : config.micro_tokens + 2].copy()
    text[BORDER] = train_gpt.BOS
    other = text.copy()
    other[BORDER - 1] += 1
    a, b = (train_gpt.make_batch(one, config, device).bigram_T for one in (text, other))
    measure.metric("first_row", int(a[0]), "")
    measure.metric("others_in_last_row", int((a[1:] == config.bigram_rows - 1).sum()), "tokens")
    changed = (a != b).nonzero().flatten() - BORDER
    model = train_gpt.build_model(config, device)
    model.bigram_weight.data.normal_()
    with torch.no_grad():
        rows_changed = (model.bigram(a) != model.bigram(b)).any(dim=-1).nonzero().flatten() - BORDER
    measure.table(
        "border", ["what", "positions that change (0 is the BOS)"],
        [["row numbers", ", ".join(f"{at:+d}" for at in changed.tolist())],
         ["vectors", ", ".join(f"{at:+d}" for at in rows_changed.tolist())]],
    )  # fmt: skip

    extremes = (0, 1, 2, 32_767, 32_768, train_gpt.BOS - 1, train_gpt.BOS)
    pairs = [list(pair) for pair in itertools.product(extremes, repeat=2)]
    wrong = {}
    for name, factor in (("as it is", train_gpt.BIGRAM_FACTORS[0]), ("larger", LARGER_FACTOR)):
        kept, train_gpt.BIGRAM_FACTORS = train_gpt.BIGRAM_FACTORS, (factor, 27_191)
        rows = config.bigram_rows
        hashed = [int(train_gpt.bigram_hash(np.array(pair), rows)[1]) for pair in pairs]
        truth = [exact(pair, rows, train_gpt.BIGRAM_FACTORS) for pair in pairs]
        wrong[name] = sum(x != y for x, y in zip(hashed, truth, strict=True))
        train_gpt.BIGRAM_FACTORS = kept
    measure.metric("largest_product", train_gpt.BIGRAM_FACTORS[0] * train_gpt.BOS, "")
    measure.metric("room_in_int32", 2**31 - 1, "")
    measure.metric("pairs_tried", len(pairs), "pairs")
    measure.metric("wrong", wrong["as it is"], "pairs")
    measure.metric("wrong_with_larger_factor", wrong["larger"], "pairs")


if __name__ == "__main__":
    main()
