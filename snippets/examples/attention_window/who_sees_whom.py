"""Who sees whom, found by changing tokens

Sixteen tokens, two documents, a window of four. One token at a time is changed, and the rows of the
output that change with it are marked: they are the ones that look at it. Nothing is read from the
mask; at the end it is compared with what was found.
"""

import torch
from torch import Tensor

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="attention-window",
    devices=["cpu"],
    main=True,
    limit_s=60,
    cache="shared",
    data=[],
    raises=None,
    heavy=False,
)
TOKENS, HEADS, HEAD_SIZE = 16, 2, 8
STARTS = [0, 7]  # the second document begins at token 7
WINDOW = 4


def attend(x_THK: Tensor, cu_seqlens_S: Tensor, window: int) -> Tensor:
    """Attention of x to itself; queries, keys and values are all x."""
    return train_gpt.reference_attention(
        x_THK, x_THK, x_THK, cu_seqlens_S, window, max_document=TOKENS, scale=HEAD_SIZE**-0.5
    )


def changed_rows(x_THK: Tensor, cu_seqlens_S: Tensor, window: int) -> Tensor:
    """Bool (T, T): whether the output of a token (row) changes with another token (column)."""
    before = attend(x_THK, cu_seqlens_S, window)
    columns = []
    for token in range(TOKENS):
        other = x_THK.clone()
        other[token] += 1.0
        after = attend(other, cu_seqlens_S, window)
        columns.append((after != before).flatten(1).any(dim=1))
    return torch.stack(columns, dim=1)


def draw(sees_TT: Tensor) -> None:
    """One line a token; # is a token that it sees, . is one that it does not."""
    print("sees  " + "".join(f"{token:3}" for token in range(TOKENS)))
    for token, row in enumerate(sees_TT.tolist()):
        if token in STARTS[1:]:
            print(" " * 6 + " --" * TOKENS)
        print(f"{token:4}  " + "".join("  #" if seen else "  ." for seen in row))


def main() -> None:
    device = torch.device(measure.device())
    torch.manual_seed(0)
    x_THK = torch.randn(TOKENS, HEADS, HEAD_SIZE, device=device)
    # The last slots aren't needed and hold T, as in the trainer.
    starts = STARTS + [TOKENS] * 3
    cu_seqlens_S = torch.tensor(starts, dtype=torch.int32, device=device)

    sees_TT = changed_rows(x_THK, cu_seqlens_S, WINDOW)
    draw(sees_TT)
    mask_TT = train_gpt.attention_mask(cu_seqlens_S, TOKENS, WINDOW)
    seen = sees_TT.sum(dim=1).tolist()
    changes = sees_TT[:, 5].nonzero().flatten().tolist()
    print(f"\ntoken 9 sees {seen[9]} tokens; a change of token 5 changes the rows {changes}")

    measure.metric("pairs", int(sees_TT.sum()), "pairs")
    measure.metric("causal_pairs", TOKENS * (TOKENS + 1) // 2, "pairs")
    measure.metric("most_seen", max(seen), "tokens")
    measure.metric("seen_by_first", seen[STARTS[1]], "tokens")
    measure.metric("seen_by_nine", seen[9], "tokens")
    measure.metric("rows_changed_by_five", len(changes), "rows")
    measure.metric("cells_unlike_the_mask", int((sees_TT != mask_TT).sum()), "cells")
    rows = []
    for window in (1, 2, WINDOW, TOKENS, 10 * TOKENS):
        found = changed_rows(x_THK, cu_seqlens_S, window)
        rows.append([window, int(found.sum(dim=1).max()), int(found.sum())])
    measure.table("windows", ["window", "most tokens seen by one", "pairs"], rows)


if __name__ == "__main__":
    main()
