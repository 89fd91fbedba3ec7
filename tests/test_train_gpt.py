"""The trainer: every block against a slow, plain way to compute the same, then the whole.

    pytest tests/test_train_gpt.py                 a minute on two cores; nothing is compiled
    pytest tests/test_train_gpt.py -m slow         trains and compiles
    pytest tests/test_train_gpt.py -m gpu          the CUDA kernels against their references

Where two ways to compute a thing are compared, the largest and the mean difference are printed;
`pytest -s` shows them.
"""

import ast
import contextlib
import dataclasses
import gzip
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from snippets import train_gpt

ROOT = Path(train_gpt.__file__).parents[1]
SOURCE = Path(train_gpt.__file__)
CPU = torch.device("cpu")

CONFIG = train_gpt.Config(
    layers=2,
    width=32,
    heads=2,
    layer_pattern="SL",
    vocab_padded=50_304,
    bigram_rows=64,
    smear_dims=4,
    micro_tokens=48,
    max_document=24,
    max_documents=16,
    steps=10,
    stages=(
        train_gpt.Stage(0.5, 1, 4, 8, 1.0),
        train_gpt.Stage(0.3, 2, 8, 16, 1.5),
        train_gpt.Stage(0.2, 3, 16, 24, 2.0),
    ),
    momentum_rise=4,
    momentum_fall=2,
    val_every=0,
    val_tokens=96,
)
"""Small enough to train in milliseconds, with odd numbers where the code might like round ones."""


@pytest.fixture
def eager():
    """Runs the decorated functions uncompiled: here it is the arithmetic that is looked at."""
    torch.compiler.set_stance("force_eager")
    yield
    torch.compiler.set_stance("default")


def write_shard(path: Path, tokens, *, magic=20_240_520, version=1, count=None) -> Path:
    """A shard written by the test's own hand, right or wrong."""
    header = np.zeros(256, dtype="<i4")
    header[:3] = magic, version, len(tokens) if count is None else count
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(header.tobytes() + np.asarray(tokens, dtype="<u2").tobytes())
    return path


def random_tokens(count: int, seed: int = 0, document: int = 15) -> np.ndarray:
    """Random tokens with a BOS in front and about every `document` tokens after it."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, 50_256, count)
    tokens[rng.random(count) < 1 / document] = train_gpt.BOS
    tokens[0] = train_gpt.BOS
    return tokens.astype(np.uint16)


@pytest.fixture
def shards(tmp_path) -> Path:
    """A folder of two small train shards and a validation shard."""
    write_shard(tmp_path / "s_train_000000.bin", random_tokens(48 * 4 + 7, seed=1))
    write_shard(tmp_path / "s_train_000001.bin", random_tokens(48 * 3 + 1, seed=2))
    write_shard(tmp_path / "s_val_000000.bin", random_tokens(48 * 3 + 20, seed=3))
    return tmp_path


def stream_of(shards: Path, config=CONFIG) -> train_gpt.TokenStream:
    return train_gpt.data_stream(train_gpt.shard_files(shards, "train"), config, CPU)


def assert_close(found: torch.Tensor, expected: torch.Tensor, atol: float, name: str) -> None:
    """Compares, and prints how far apart they are whether or not that is too far."""
    assert found.shape == expected.shape
    difference = (found.double() - expected.double()).abs()
    print(f"{name}: max difference {difference.max():.2e}, mean {difference.mean():.2e}")
    assert difference.max() <= atol


def lively(model: train_gpt.GPT, seed: int = 5) -> train_gpt.GPT:
    """The model with no weight at zero: at its true start half of it has no say in the loss."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator) * 0.05)
    return model


def run_cli(*arguments, cwd=ROOT, **options) -> subprocess.CompletedProcess:
    """The trainer's command line in a process of its own."""
    return subprocess.run(
        [sys.executable, str(SOURCE), *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=280,
        **options,
    )


# --- The file as a text ---


def test_import_has_no_effect(tmp_path):
    """No CUDA, environment, argv, files, processes or output, in a process of its own.

    One thing is torch's: decorating with torch.compile makes its cache folder, which stays empty.
    """
    probe = """if True:
        import os, sys, tempfile, threading
        import torch
        before = (dict(os.environ), list(sys.argv), set(os.listdir(".")), os.getcwd())
        written, writing = [], os.O_WRONLY | os.O_RDWR | os.O_CREAT
        def watch(event, args):
            if event == "open" and isinstance(args[2], int) and args[2] & writing:
                written.append(str(args[0]))
            if event in ("subprocess.Popen", "os.fork", "socket.connect", "os.rename"):
                written.append(event)
            if event == "os.mkdir" and str(args[0]) != os.environ["TORCHINDUCTOR_CACHE_DIR"]:
                written.append(str(args[0]))
        tempfile.gettempdir()  # tries its folders out once, with a file that it removes
        sys.addaudithook(watch)
        threads = threading.active_count()
        limit = __import__("torch._dynamo")._dynamo.config.recompile_limit
        from snippets import train_gpt
        assert before == (dict(os.environ), list(sys.argv), set(os.listdir(".")), os.getcwd())
        assert not torch.cuda.is_initialized()
        assert not torch.distributed.is_initialized()
        assert threads == threading.active_count()
        assert limit == torch._dynamo.config.recompile_limit
        assert [w for w in written if not w.endswith("pyc") and "pyc." not in w] == [], written
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    cache = tmp_path / "cache"
    cache.mkdir()
    environment |= {"HOME": str(tmp_path), "TORCHINDUCTOR_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", probe],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "") and done.stderr == "", done.stderr
    assert list(cache.iterdir()) == []


def markers() -> list[tuple[str, str, int]]:
    pattern = re.compile(r"^\s*# --8<-- \[(start|end):([a-z0-9-]+)\]$")
    lines = SOURCE.read_text().splitlines()
    found = ((pattern.match(line), number) for number, line in enumerate(lines, 1))
    return [(match[1], match[2], number) for match, number in found if match]


def contents() -> dict[str, list[str]]:
    """The contents table of the module docstring: section -> block ids."""
    table = train_gpt.__doc__.split("Contents (section: blocks)\n")[1].split("\n\n")[0]
    rows = (line.split(":") for line in table.splitlines())
    return {title.strip(): ids.replace(",", " ").split() for title, ids in rows}


def test_contents_are_the_markers_in_order_of_sections():
    listed = contents()
    marked = [block for kind, block, _ in markers() if kind == "start"]
    assert len(marked) == len(set(marked))
    assert sorted(itertools.chain(*listed.values())) == sorted(marked)
    lines = SOURCE.read_text().splitlines()
    titles = list(listed)
    starts = [
        next(n for n, line in enumerate(lines, 1) if line.strip().startswith(f"# {title}: "))
        for title in titles
    ]
    assert starts == sorted(starts)
    for kind, block, number in markers():
        section = max((s, title) for s, title in zip(starts, titles, strict=True) if s < number)[1]
        assert block in listed[section], (kind, block, section)


def test_markers_are_balanced_and_nested():
    open_blocks: list[str] = []
    for kind, block, number in markers():
        if kind == "start":
            open_blocks.append(block)
        else:
            assert open_blocks and open_blocks.pop() == block, (block, number)
    assert not open_blocks


def test_banners_are_unique_and_of_one_width():
    lines = SOURCE.read_text().splitlines()
    rules = [n for n, line in enumerate(lines) if re.fullmatch(r" *# -{20,}", line)]
    assert {len(lines[n]) for n in rules} == {100}
    pairs = list(zip(rules[::2], rules[1::2], strict=True))
    assert all(below - above == 2 for above, below in pairs)
    titles = [lines[above + 1].strip() for above, _ in pairs]
    assert len(set(titles)) == len(titles) == len(contents())


def test_file_and_functions_are_short():
    text = SOURCE.read_text()
    functions = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)]
    lengths = {f.name: f.end_lineno - f.lineno + 1 for f in functions}
    longest = max(lengths, key=lengths.get)
    total = len(text.splitlines())
    print(f"{total} lines, longest function {longest} with {lengths[longest]}")
    assert total <= 2_000
    assert {name for name, length in lengths.items() if length > 60} <= {"run"}
    missing = [
        f.name
        for f in functions
        if f.returns is None
        or any(a.annotation is None for a in f.args.args if a.arg not in ("self", "cls"))
    ]
    assert missing == []


def test_every_block_names_its_credit_where_it_has_one():
    """Ideas of others are credited at the block; plumbing of our own needs none."""
    own = {"dynamo-limits", "grad-accumulation", "data-stream", "layer-plan", "gpt-forward",
           "lr-schedule", "optimizer-state", "optimizer-step", "model-build", "model-compile",
           "profiler", "train-loop", "validation", "run-log"}  # fmt: skip
    lines = SOURCE.read_text().splitlines()
    starts = {block: number for kind, block, number in markers() if kind == "start"}
    ends = {block: number for kind, block, number in markers() if kind == "end"}
    credited = {b for b in starts if "# Credit: " in "\n".join(lines[starts[b] : ends[b]])}
    assert set(starts) - own <= credited


# --- Data ---


def test_bigram_hash_equals_a_loop():
    tokens = np.array([50_256, 50_256, 0, 1, 50_256, 77, 50_256, 50_256, 5], dtype=np.int32)
    rows = 251_520
    expected = [rows - 1]
    for before, now in itertools.pairwise(tokens.tolist()):
        expected.append(((36_313 * now) ^ (27_191 * before)) % (rows - 1))
    found = train_gpt.bigram_hash(tokens, rows)
    assert found.dtype == np.int32
    assert found.tolist() == expected


def test_bigram_hash_never_leaves_int32():
    """Python's ints have no end, numpy's int32 wraps: they must agree on the largest token."""
    largest = max(train_gpt.BIGRAM_FACTORS) * train_gpt.BOS
    print(f"largest product {largest:,}, room up to {2**31 - 1:,}")
    assert largest < 2**31
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 50_257, 5_000, dtype=np.int32)
    found = train_gpt.bigram_hash(tokens, 997)
    wide = tokens.astype(np.int64)
    expected = ((36_313 * wide[1:]) ^ (27_191 * wide[:-1])) % 996
    assert found[1:].tolist() == expected.tolist()
    assert found[0] == 996 and found.min() >= 0


@pytest.mark.parametrize(
    ("tokens", "starts"),
    [
        ([9] * 48, [0, 24]),  # one document without a start, cut at max_document
        ([50_256] + [9] * 47, [0, 24]),
        ([9] * 10 + [50_256] + [9] * 37, [0, 10, 34]),
        ([50_256, 50_256] + [9] * 46, [0, 1, 25]),  # a document of one token
        ([9] * 47 + [50_256], [0, 24, 47]),
    ],
)
def test_packing_finds_the_documents(tokens, starts):
    cu = train_gpt.pack_documents(np.array(tokens, dtype=np.int32), CONFIG)
    assert cu.dtype == np.int32 and len(cu) == CONFIG.max_documents + 1
    assert cu.tolist() == starts + [48] * (len(cu) - len(starts))
    assert np.diff(cu).max() <= CONFIG.max_document


def test_packing_takes_as_many_documents_as_there_are_slots():
    full = np.full(48, 9, dtype=np.int32)
    full[:32:2] = train_gpt.BOS
    full[32:] = 9
    tight = dataclasses.replace(CONFIG, max_document=48)
    assert train_gpt.pack_documents(full, tight)[-1] == 48
    full[40] = train_gpt.BOS
    with pytest.raises(train_gpt.UserError, match=r"17 documents in 48 tokens.*is 16"):
        train_gpt.pack_documents(full, tight)


def test_stream_hands_out_every_token_in_order_and_starts_over(shards):
    stream = stream_of(shards)
    first = train_gpt.load_shard(shards / "s_train_000000.bin")
    second = train_gpt.load_shard(shards / "s_train_000001.bin")
    batches = [next(stream) for _ in range(8)]
    inputs = torch.cat([batch.inputs_T for batch in batches]).numpy()
    expected = np.concatenate([first[: 48 * 4], second[: 48 * 3], first[:48]])
    assert inputs.tolist() == expected.tolist()
    assert stream.position == (0, 48)
    for batch in batches:
        assert [tensor.dtype for tensor in batch] == [
            torch.int32, torch.int64, torch.int32, torch.int32,
        ]  # fmt: skip
        assert batch.targets_T[:-1].tolist() == batch.inputs_T[1:].tolist()
    assert batches[0].targets_T[-1] == int(first[48])


def test_stream_goes_back_to_a_position(shards):
    stream = stream_of(shards)
    next(stream)
    position = stream.position
    ahead = [next(stream) for _ in range(5)]
    stream.position = position
    for batch in ahead:
        again = next(stream)
        assert all(torch.equal(a, b) for a, b in zip(batch, again, strict=True))


def test_shard_errors_are_one_line_that_names_file_finding_and_advice(tmp_path):
    good = random_tokens(100)
    cases = {
        "magic": ({"magic": 65_536}, "starts with 65536, not with 20240520"),
        "version": ({"version": 2}, "has version 2, not 1"),
        "long": ({"count": 101}, "header promises 101 tokens, file holds 100"),
        "short": ({"count": 99}, "header promises 99 tokens, file holds 100"),
    }
    for name, (wrong, message) in cases.items():
        path = write_shard(tmp_path / f"{name}.bin", good, **wrong)
        check_shard_error(path, message)
    path = write_shard(tmp_path / "token.bin", [1, 50_257, 2])
    check_shard_error(path, "holds token 50257")
    (tmp_path / "tiny.bin").write_bytes(b"1234567")
    check_shard_error(tmp_path / "tiny.bin", "7 bytes are too few")
    whole = write_shard(tmp_path / "odd.bin", good).read_bytes()
    (tmp_path / "odd.bin").write_bytes(whole + b"x")
    check_shard_error(tmp_path / "odd.bin", "header promises 100 tokens")
    (tmp_path / "folder.bin").mkdir()
    check_shard_error(tmp_path / "folder.bin", "can't be read")
    check_shard_error(tmp_path / "absent.bin", "can't be read")


def check_shard_error(path: Path, message: str) -> None:
    with pytest.raises(train_gpt.UserError) as caught:
        train_gpt.load_shard(path)
    text = str(caught.value)
    assert text.startswith(str(path)) and message in text and "; " in text and "\n" not in text


def test_shard_too_small_for_a_micro_batch(tmp_path):
    write_shard(tmp_path / "s_train_0.bin", random_tokens(48))
    with pytest.raises(train_gpt.UserError, match=r"holds 48 tokens and one micro-batch needs 49"):
        stream_of(tmp_path)
    write_shard(tmp_path / "s_train_0.bin", random_tokens(49))
    assert len(next(stream_of(tmp_path)).inputs_T) == 48


# --- Primitives and attention ---


@pytest.mark.parametrize("shape", [(1, 4), (7, 33), (2, 3, 130)])
def test_rms_norm_equals_its_formula(shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 3
    expected = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    assert_close(train_gpt.rms_norm(x), expected, 1e-5, "rms_norm")


@pytest.mark.parametrize(("tokens", "head_size"), [(1, 4), (9, 8), (130, 64)])
def test_rotation_equals_complex_numbers(tokens, head_size):
    x = torch.randn(tokens, 3, head_size, generator=torch.Generator().manual_seed(0))
    cos, sin = train_gpt.rotary_tables(tokens, head_size)
    half, quarter = head_size // 2, head_size // 4
    expected = x.clone().double()
    for t, pair in itertools.product(range(tokens), range(quarter)):
        speed = (1 / 1024) ** (pair / (quarter - 1)) if quarter > 1 else 1.0
        turn = np.exp(1j * t * speed)
        for head in range(3):
            z = complex(x[t, head, pair], x[t, head, pair + half]) * turn
            expected[t, head, pair], expected[t, head, pair + half] = z.real, z.imag
    found = train_gpt.rotate(x, cos, sin)
    assert_close(found, expected, 2e-5, "rotate")
    assert torch.allclose(found.norm(dim=-1), x.norm(dim=-1), atol=1e-5)
    assert torch.equal(found[..., quarter:half], x[..., quarter:half])


def naive_attention(q, k, v, starts, window, scale):
    """Attention as in a textbook: one query, one head, one key at a time."""
    tokens, heads, _ = q.shape
    out = torch.zeros_like(q)
    for t, h in itertools.product(range(tokens), range(heads)):
        start = max(s for s in starts if s <= t)
        seen = range(max(start, t - window + 1), t + 1)
        scores = torch.stack([scale * q[t, h] @ k[j, h] for j in seen]).softmax(0)
        out[t, h] = sum(p * v[j, h] for p, j in zip(scores, seen, strict=True))
    return out


@pytest.mark.parametrize(
    ("tokens", "starts", "window"),
    [
        (1, [0], 1),
        (13, [0], 1),  # only itself
        (13, [0], 2),
        (13, [0], 13),
        (13, [0], 99),  # wider than all
        (17, [0, 1, 2, 9, 16], 4),
        (17, [0, 5, 10, 15], 5),  # window as long as a document
        (31, [0, 30], 7),
        (29, [0, 7, 7, 7], 6),  # slots of no tokens
    ],
)
def test_reference_attention_equals_a_loop(tokens, starts, window):
    generator = torch.Generator().manual_seed(tokens * window)
    q, k, v = (torch.randn(tokens, 2, 8, generator=generator).double() for _ in range(3))
    cu = torch.tensor([*starts, tokens, tokens], dtype=torch.int32)
    found = train_gpt.reference_attention(q, k, v, cu, window, tokens, 0.3)
    assert_close(found, naive_attention(q, k, v, starts, window, 0.3), 1e-12, "attention")


def test_window_counts_the_token_itself():
    cu = torch.tensor([0, 4, 10, 10], dtype=torch.int32)
    mask = train_gpt.attention_mask(cu, 10, 3)
    assert mask.sum(1).tolist() == [1, 2, 3, 3, 1, 2, 3, 3, 3, 3]


def test_both_attentions_take_the_same_arguments():
    import inspect

    fast, plain = train_gpt.varlen_attention, train_gpt.reference_attention
    assert inspect.signature(fast) == inspect.signature(plain)


def test_layer_plan_follows_the_pattern():
    speedrun = train_gpt.PRESETS["speedrun"]
    plan = train_gpt.layer_plan(speedrun)
    assert [layer.window for layer in plan].count("long") == speedrun.layer_pattern.count("L")
    assert [layer.tokens((3, 8)) for layer in plan] == [3, 3, 3, 8, 3, 3, 3, 3, 3, 3, 8]
    with pytest.raises(train_gpt.UserError, match="layer_pattern 'SX'"):
        dataclasses.replace(CONFIG, layer_pattern="SX")


def test_no_layer_numbers_in_the_forward_pass():
    """What differs by layer comes from the plan: nothing is compared with a layer's number."""
    for node in ast.walk(ast.parse(SOURCE.read_text())):
        if isinstance(node, ast.Compare):
            names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            assert not names & {"layer", "i"}, ast.unparse(node)


# --- Model ---


def test_smear_equals_a_loop():
    model = lively(train_gpt.build_model(CONFIG, CPU))
    x = torch.randn(9, CONFIG.width, generator=torch.Generator().manual_seed(0))
    expected = x.clone()
    for t in range(1, 9):
        gate = torch.sigmoid(x[t, : CONFIG.smear_dims] @ model.smear_gate)
        expected[t] = x[t] + model.smear_scalar * gate * x[t - 1]
    assert_close(model.smear(x).detach(), expected.detach(), 1e-6, "smear")


def test_softcap_bounds_and_keeps_order():
    z = torch.linspace(-300, 300, 1001)
    y = train_gpt.softcap(z)
    assert y.min() >= 0 and y.max() <= 23
    assert (y.diff() >= 0).all()
    assert train_gpt.softcap(torch.tensor(-5.0)).item() == 11.5
    expected = 23 / (1 + torch.exp(-(z.double() + 5) / 7.5))
    assert_close(y, expected, 1e-5, "softcap")


def test_relu2_mlp_equals_its_formula():
    generator = torch.Generator().manual_seed(0)
    x, up, down = (torch.randn(s, generator=generator) for s in ((5, 8), (32, 8), (32, 8)))
    expected = torch.stack([sum(max(0, u @ r) ** 2 * d for u, d in zip(up, down, strict=True))
                            for r in x])  # fmt: skip
    assert_close(train_gpt.relu2_mlp(x, up, down), expected, 1e-3, "mlp")


def test_start_is_the_same_for_a_seed_and_near_a_uniform_guess(shards):
    one, two = (train_gpt.build_model(CONFIG, CPU, seed=s) for s in (0, 0))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    other = train_gpt.build_model(CONFIG, CPU, seed=1)
    assert not torch.equal(one.attention_bank, other.attention_bank)
    loss = one(*next(stream_of(shards)), (4, 8))
    assert loss.shape == () and loss.dtype == torch.float32
    assert abs(loss.item() - np.log(CONFIG.vocab_padded)) < 0.1


def test_no_token_sees_the_future_or_another_document(shards):
    """Changing a token changes no output before it, nor, past the smear's reach, beside it."""
    model = lively(train_gpt.build_model(CONFIG, CPU))
    rows: list[torch.Tensor] = []
    model.loss = lambda x, targets: rows.append(x.detach()) or x.sum()
    batch = next(stream_of(shards))
    cu = torch.tensor([0, 20] + [48] * 15, dtype=torch.int32)
    changed = batch.inputs_T.clone()
    changed[10] = (changed[10] + 1) % 50_000
    for inputs in (batch.inputs_T, changed):
        bigram = torch.from_numpy(train_gpt.bigram_hash(inputs.numpy(), CONFIG.bigram_rows))
        model(inputs, batch.targets_T, bigram, cu, (4, 8))
    touched = (rows[0] - rows[1]).abs().amax(1) > 0
    assert not touched[:10].any() and touched[10] and not touched[20:].any()


def test_gradient_of_eight_micro_batches_is_that_of_one_big_one(shards):
    """n passes over T tokens equal one over n * T, when documents start where passes do."""
    n, size = 8, 6
    config = dataclasses.replace(CONFIG, micro_tokens=size, max_document=size)
    big = dataclasses.replace(CONFIG, micro_tokens=n * size, max_document=size)
    tokens = random_tokens(n * size + 1, seed=9, document=10**9)
    starts = range(0, n * size, size)
    small = lively(train_gpt.build_model(config, CPU))
    for start in starts:
        batch = train_gpt.make_batch(tokens[start : start + size + 1], config, CPU)
        (small(*batch, (4, 8)) / n).backward()
    large = lively(train_gpt.build_model(big, CPU))
    batch = train_gpt.make_batch(tokens, big, CPU)
    # The hash and the smear look across starts; here each pass must look as if it stood alone.
    bigram = batch.bigram_T.clone()
    bigram[list(starts)] = big.bigram_rows - 1
    large.smear = lambda x: torch.cat([type(large).smear(large, part) for part in x.split(size)])
    large(*batch._replace(bigram_T=bigram), (4, 8)).backward()
    for (name, a), b in zip(small.named_parameters(), large.parameters(), strict=True):
        scale = b.grad.abs().max().item()
        assert scale > 0, name
        assert_close(a.grad / scale, b.grad / scale, 2e-4, name)


# --- Optimizer ---


def minimax_quintic(low: float, high: float) -> np.ndarray:
    """The odd quintic closest to 1 on [low, high], by Remez's exchange of four extreme points."""
    points = np.linspace(low, high, 4)
    for _ in range(100):
        signs = np.array([1, -1, 1, -1])
        system = np.stack([points, points**3, points**5, signs], axis=1)
        a, b, c, _ = np.linalg.solve(system, np.ones(4))
        roots = np.roots([5 * c, 0, 3 * b, 0, a])  # where the derivative is zero
        inner = np.sort(roots[np.isreal(roots) & (roots.real > 0)].real)
        moved = np.array([low, *inner, high])
        if np.allclose(moved, points, rtol=1e-14):
            break
        points = moved
    return np.array([a, b, c])


def polynomial(coefficients, x):
    a, b, c = coefficients
    return a * x + b * x**3 + c * x**5


def test_polar_coefficients_are_what_the_method_gives():
    low, high, powers = 1e-3, 1.0, np.array([1, 3, 5])
    for step, stored in enumerate(train_gpt.POLAR_COEFFICIENTS):
        found = minimax_quintic(max(low, 0.02 * high), high)
        if low < 0.02 * high:  # the cushion moved the lower edge: centre it around 1 again
            found = found * 2 / (polynomial(found, low) + polynomial(found, high))
        if step < len(train_gpt.POLAR_COEFFICIENTS) - 1:
            found = found / (1 + train_gpt.POLAR_SAFETY) ** powers
        print(f"step {step}: {found} difference {np.abs(found - stored).max():.1e}")
        assert np.allclose(found, stored, rtol=1e-9)
        low = polynomial(found, low)
        high = 2 - low


def test_polar_polynomials_bring_singular_values_near_one():
    x = np.geomspace(5e-3, 1, 10_000)
    for coefficients in train_gpt.POLAR_COEFFICIENTS:
        x = polynomial(coefficients, x)
    print(f"[0.005, 1] is mapped into [{x.min():.3f}, {x.max():.3f}]")
    assert x.min() > 0.8 and x.max() < 1.2


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 24, 8), (2, 8, 24), (4, 33, 65), (2, 128, 128)])
@pytest.mark.parametrize("name", ["polar_express", "newton_schulz"])
def test_orthogonalisers_keep_directions_and_even_out_lengths(eager, shape, name):
    G = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    X = getattr(train_gpt, name)(G)
    assert X.shape == G.shape
    U, S, Vh = torch.linalg.svd(G, full_matrices=False)
    inside = U.mT @ X @ Vh.mT  # in G's own directions: diagonal, if they were kept
    off = inside - torch.diag_embed(inside.diagonal(dim1=-2, dim2=-1))
    values = inside.diagonal(dim1=-2, dim2=-1)[S / S.amax(-1, keepdim=True) > 0.02]
    print(f"{name} {shape}: values {values.min():.3f} to {values.max():.3f}, off {off.abs().max()}")
    assert off.abs().max() < 1e-3
    assert values.min() > 0.5 and values.max() < 1.35
    if name == "polar_express":
        assert_close(X, U @ Vh, 0.35, "to the polar factor")


def test_orthogonalising_zeros_gives_zeros(eager):
    assert torch.equal(train_gpt.polar_express(torch.zeros(2, 4, 6)), torch.zeros(2, 4, 6))


def test_adam_equals_torch(eager):
    start = torch.randn(50, generator=torch.Generator().manual_seed(0))
    theirs = torch.nn.Parameter(start.clone())
    optimizer = torch.optim.Adam([theirs], lr=0.01, betas=(0.75, 0.95), eps=1e-8)
    ours, mean, square = start.clone(), torch.zeros(50), torch.zeros(50)
    for t in range(1, 8):
        gradient = torch.randn(50, generator=torch.Generator().manual_seed(t))
        theirs.grad = gradient
        optimizer.step()
        corrections = (torch.tensor(1 - 0.75**t), torch.tensor(1 - 0.95**t))
        lr = torch.tensor(0.01)
        train_gpt.adam_update(
            ours, gradient, mean, square, lr, corrections, (0.75, 0.95), 1e-8
        )  # fmt: skip
    assert_close(ours, theirs.detach(), 1e-6, "adam")


def test_muon_step_equals_its_formula(eager, shards):
    """One weight, two steps, by hand: momentum, orthogonalising each square, decay, rate."""
    model = train_gpt.build_model(CONFIG, CPU)
    optimizer = train_gpt.MuonAndAdam(model, CONFIG)
    expected, average = model.mlp_bank.detach().clone(), torch.zeros_like(model.mlp_bank)
    for step in range(2):
        for number, weight in enumerate(model.parameters()):
            generator = torch.Generator().manual_seed(10 * step + number)
            weight.grad = torch.randn(weight.shape, generator=generator)
        gradient = model.mlp_bank.grad.clone()
        momentum = train_gpt.muon_momentum(CONFIG, step)
        average = momentum * average + (1 - momentum) * gradient
        looked_ahead = (1 - momentum) * gradient + momentum * average
        update = train_gpt.polar_express(looked_ahead.flatten(0, 1)).view_as(gradient)
        lr = CONFIG.muon_lr * train_gpt.lr_scale(CONFIG, step) * 2  # sqrt(4D / D)
        expected = expected - lr * (update + 0.025 * expected)
        optimizer.step(step)
        optimizer.zero_grad()
    assert_close(model.mlp_bank.detach(), expected, 1e-6, "muon")
    assert all(weight.grad is None for weight in model.parameters())


def test_masters_carry_steps_that_bf16_would_lose(eager):
    """As on CUDA: bf16 weights follow fp32 masters, so many tiny steps add up."""
    config = dataclasses.replace(CONFIG, adam_lr=1e-6, steps=1000, cooldown=1e-9)
    model = train_gpt.build_model(config, CPU).to(torch.bfloat16)
    optimizer = train_gpt.MuonAndAdam(model, config)
    with torch.no_grad():
        model.embed_weight.fill_(1.0)
        optimizer.state["embed_weight"]["master"].fill_(1.0)
        model.bigram_weight.fill_(1.0)
    for step in range(30):
        for weight in model.parameters():
            weight.grad = torch.ones_like(weight)
        optimizer.step(step)
    master = optimizer.state["embed_weight"]["master"]
    assert torch.allclose(master, torch.tensor(1 - 30 * 1e-6), atol=1e-6)
    assert model.embed_weight.dtype == torch.bfloat16
    assert "master" not in optimizer.state["bigram_weight"]
    assert torch.equal(model.bigram_weight, torch.ones_like(model.bigram_weight))


def test_every_weight_has_a_row_and_every_row_a_weight():
    names = {name for name, _ in train_gpt.GPT(CONFIG).named_parameters()}
    assert names == set(train_gpt.PARAMETER_TABLE)

    class Wider(train_gpt.GPT):
        def __init__(self, config):
            super().__init__(config)
            self.novelty = torch.nn.Parameter(torch.zeros(3))

    with pytest.raises(KeyError, match="no row in PARAMETER_TABLE for novelty"):
        train_gpt.MuonAndAdam(Wider(CONFIG), CONFIG)


# --- Schedule ---


@pytest.mark.parametrize("name", list(train_gpt.STAGES))
def test_stage_shares_sum_to_one_and_stages_grow(name):
    stages = train_gpt.STAGES[name]
    assert sum(stage.share for stage in stages) == pytest.approx(1)
    for a, b in itertools.pairwise(stages):
        assert a.micro_batches <= b.micro_batches
        assert a.windows < b.windows


def test_speedrun_steps_are_the_sizes_that_are_documented():
    config = train_gpt.PRESETS["speedrun"]
    tokens = [stage.micro_batches * config.micro_tokens for stage in config.stages]
    assert tokens == [131_072, 262_144, 393_216, 393_216]
    assert all(max(stage.windows) <= config.max_document for stage in config.stages)


def test_every_step_has_its_stage():
    counts = [0, 0, 0]
    for step in range(CONFIG.steps):
        counts[CONFIG.stages.index(train_gpt.stage_at(CONFIG, step))] += 1
    assert counts == [5, 3, 2]
    assert train_gpt.stage_at(CONFIG, 99) == CONFIG.stages[-1]
    flat = dataclasses.replace(CONFIG, without=frozenset({"stage-table"}))
    assert {train_gpt.stage_at(flat, step) for step in range(10)} == {CONFIG.stages[1]}


def test_learning_rate_is_flat_then_falls_to_its_end():
    config = dataclasses.replace(CONFIG, steps=100, stages=(train_gpt.Stage(1.0, 1, 4, 8, 1.5),))
    scales = [train_gpt.lr_scale(config, step) for step in range(101)]
    assert scales[:46] == pytest.approx([1.5] * 46)
    assert all(a > b for a, b in itertools.pairwise(scales[45:]))
    assert scales[100] == pytest.approx(config.final_lr)


def test_momentum_rises_stays_and_falls():
    config = dataclasses.replace(CONFIG, steps=100, momentum_rise=30, momentum_fall=10)
    values = [train_gpt.muon_momentum(config, step) for step in range(101)]
    assert (values[0], values[30], values[90]) == pytest.approx((0.85, 0.95, 0.95))
    assert values[100] == pytest.approx(0.85)
    assert values[:31] == sorted(values[:31])
    off = dataclasses.replace(config, without=frozenset({"muon-momentum"}))
    assert {train_gpt.muon_momentum(off, step) for step in range(101)} == {0.95}


# --- The whole ---


def train(config, shards, steps=3, model=None):
    model = model or train_gpt.build_model(config, CPU)
    optimizer = train_gpt.MuonAndAdam(model, config)
    stream = stream_of(shards, config)
    losses = [train_gpt.train_step(model, optimizer, stream, config, s) for s in range(steps)]
    return [loss.item() for loss in losses], model


def test_loss_falls_on_a_repeated_batch(eager, shards):
    config = dataclasses.replace(CONFIG, stages=(train_gpt.Stage(1.0, 1, 8, 16, 1.0),), steps=20)
    model = train_gpt.build_model(config, CPU)
    optimizer = train_gpt.MuonAndAdam(model, config)
    batch = next(stream_of(shards, config))
    again = itertools.repeat(batch)
    losses = [train_gpt.train_step(model, optimizer, again, config, s).item() for s in range(20)]
    assert losses[-1] < losses[0] - 3, losses


TRAINED_BY = {"qk-norm", "smear-gate", "bigram-embed", "residual-scalars", "softcap",
              "polar-express", "stage-table", "muon-momentum"}  # fmt: skip
"""Switches that change what is learned; the others change only how it is run."""


def test_same_seed_gives_the_same_losses(eager, shards):
    assert train(CONFIG, shards)[0] == train(CONFIG, shards)[0]


@pytest.mark.parametrize("switch", train_gpt.SWITCHES)
def test_every_switch_trains_and_changes_what_it_should(eager, shards, switch):
    config = dataclasses.replace(CONFIG, without=frozenset({switch}))
    losses, model = train(config, shards, steps=4)
    assert all(np.isfinite(losses))
    changed = losses != train(CONFIG, shards, steps=4)[0]
    assert changed == (switch in TRAINED_BY)
    weights = {"smear-gate": "smear_gate", "bigram-embed": "bigram_weight",
               "residual-scalars": "residual_scalars"}  # fmt: skip
    if switch in weights:
        assert not hasattr(model, weights[switch])


def test_switching_everything_off_still_trains(eager, shards):
    config = dataclasses.replace(CONFIG, without=frozenset(train_gpt.SWITCHES))
    losses, model = train(config, shards, steps=4)
    assert losses[-1] < losses[0]
    assert train_gpt.compile_model(model, config) is model


def test_unknown_switch_names_the_nearest():
    with pytest.raises(train_gpt.UserError, match="no switch 'smear-gates'; did you mean smear-ga"):
        dataclasses.replace(CONFIG, without=frozenset({"smear-gates"}))


def test_warm_up_leaves_everything_bit_for_bit(eager, shards):
    model = train_gpt.build_model(CONFIG, CPU)
    optimizer = train_gpt.MuonAndAdam(model, CONFIG)
    stream = stream_of(shards)
    for step in range(2):  # not at the very start, where all state is zero
        train_gpt.train_step(model, optimizer, stream, CONFIG, step)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    state = train_gpt.clone_tree(optimizer.state_dict())
    position = stream.position
    seconds = train_gpt.warm_up(model, optimizer, stream, CONFIG, CONFIG.steps)
    assert list(seconds) == [stage.windows for stage in CONFIG.stages]
    for name, weight in model.named_parameters():
        assert torch.equal(weight, before[name]), name
        assert weight.grad is None
    now = optimizer.state_dict()
    assert now["updates"] == state["updates"]
    for name, tensors in state["state"].items():
        for key, tensor in tensors.items():
            assert torch.equal(now["state"][name][key], tensor), (name, key)
    assert stream.position == position


def test_warm_up_meets_only_the_stages_that_will_come(eager, shards):
    model = train_gpt.build_model(CONFIG, CPU)
    optimizer = train_gpt.MuonAndAdam(model, CONFIG)
    assert list(train_gpt.warm_up(model, optimizer, stream_of(shards), CONFIG, 5)) == [(4, 8)]


def test_a_warmed_up_run_equals_one_that_was_not(eager, shards):
    model = train_gpt.build_model(CONFIG, CPU)
    optimizer = train_gpt.MuonAndAdam(model, CONFIG)
    stream = stream_of(shards)
    train_gpt.warm_up(model, optimizer, stream, CONFIG, CONFIG.steps)
    losses = [
        train_gpt.train_step(model, optimizer, stream, CONFIG, s).item() for s in range(3)
    ]  # fmt: skip
    assert losses == train(CONFIG, shards)[0]


def test_validation_is_the_mean_over_one_pass(eager, shards):
    model = lively(train_gpt.build_model(CONFIG, CPU))
    files = train_gpt.shard_files(shards, "val")
    tokens = train_gpt.load_shard(files[0])
    losses = []
    for start in (0, 48, 96):
        batch = train_gpt.make_batch(tokens[start : start + 49], CONFIG, CPU)
        losses.append(model(*batch, (4, 8)).item())
    two = train_gpt.validate(model, files, CONFIG, CPU, (4, 8))
    assert two == pytest.approx(np.mean(losses[:2]))
    everything = dataclasses.replace(CONFIG, val_tokens=10**9)
    assert train_gpt.validate(model, files, everything, CPU, (4, 8)) == pytest.approx(
        np.mean(losses)
    )


def test_log_has_one_line_a_step_in_order(shards, tmp_path, capsys):
    log = train_gpt.RunLog(tmp_path / "log.txt", CONFIG, CPU)
    log.start_clock()
    for step in range(3):
        log.step(step, torch.tensor(float(step)))
    log.finish()
    log.summary()
    printed = capsys.readouterr().out
    assert (tmp_path / "log.txt").read_text() == printed
    lines = printed.splitlines()
    assert [line.split("  ")[0] for line in lines[:3]] == ["step 1/10", "step 2/10", "step 3/10"]
    assert "loss 2.0000" in lines[2] and "windows 4/8" in lines[2]
    assert len(lines) == 4 and "median" in lines[3]


# --- The command line ---


OPTIONS = ["--help", "--preset", "--data", "--steps", "--stop", "--without", "--device", "--seed",
           "--out", "--profile"]  # fmt: skip


def test_options_are_frozen_and_explained(capsys):
    with pytest.raises(SystemExit) as ended:
        train_gpt.parse_arguments(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert sorted(set(re.findall(r"--[a-z]+", text.split("blocks for")[0]))) == sorted(OPTIONS)
    assert all(switch in text for switch in train_gpt.SWITCHES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--preset", "tinny"], "--preset: no preset 'tinny'; did you mean tiny?"),
        (["--without", "softcat"], "no switch 'softcat'; did you mean softcap?"),
        (["--without", "zzz"], "no switch 'zzz'; known are qk-norm, "),
        (["--steps", "0"], "--steps 0: at least 1 is needed"),
        (["--stop", "-3"], "--stop -3: at least 1 is needed"),
        (["--profile", "p", "--steps", "6"], "--profile: needs a run of at least 7 steps"),
        (["--seed", "9" * 23], "must fit 64 bits; choose a smaller one"),
        (["--data", "nowhere"], "nowhere: no such folder of shards; python snippets/prepare"),
        (["--data", "."], ".: holds no *_train_*.bin shard; python snippets/prepare_data.py"),
    ],
)
def test_mistakes_end_with_one_line_and_code_2(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert train_gpt.main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1
    assert message in printed.err


def test_a_device_that_is_not_there(monkeypatch, capsys, shards):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert train_gpt.main(["--data", str(shards), "--device", "cuda"]) == 2
    assert "torch finds no CUDA GPU" in capsys.readouterr().err
    assert train_gpt.main(["--data", str(shards), "--preset", "speedrun"]) == 2
    assert "needs a CUDA GPU" in capsys.readouterr().err


def test_another_torch_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(torch, "__version__", "2.9.1")
    assert train_gpt.main([]) == 2
    assert "torch 2.9.1 is installed; supported is 2.11 to 2.13" in capsys.readouterr().err


def test_a_bad_shard_ends_the_command_without_a_traceback(shards):
    shard = shards / "s_train_000000.bin"
    shard.write_bytes(shard.read_bytes()[:-4])
    done = run_cli("--data", shards)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith(f"train_gpt.py: {shard}: header promises")
    assert "Traceback" not in done.stderr


def test_a_folder_that_cannot_be_made(shards, tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setitem(train_gpt.PRESETS, "small", CONFIG)
    arguments = ["--preset", "small", "--data", str(shards), "--out", str(tmp_path / "file" / "x")]
    assert train_gpt.main(arguments) == 2
    assert "can't be made" in capsys.readouterr().err
    for out in (str(tmp_path), "/dev/full"):  # a folder, and a file that takes nothing
        assert train_gpt.main([*arguments[:-1], out]) == 2
        assert "can't be written" in capsys.readouterr().err


def test_main_trains_logs_and_profiles(eager, shards, tmp_path, monkeypatch, capsys):
    """The whole command in this process, uncompiled, on a small preset."""
    monkeypatch.setitem(train_gpt.PRESETS, "small", dataclasses.replace(CONFIG, val_every=4))
    monkeypatch.setattr(train_gpt, "set_dynamo_limits", lambda: None)
    log, trace = tmp_path / "logs" / "run.txt", tmp_path / "trace"
    arguments = ["--preset", "small", "--data", shards, "--out", log, "--profile", trace]
    assert train_gpt.main(list(map(str, arguments))) == 0
    text = capsys.readouterr().out
    assert log.read_text() == text
    steps = re.findall(r"^step (\d+)/10  loss", text, re.M)
    assert steps == [str(step) for step in range(1, 11)]
    assert re.findall(r"^step (\d+)/10  validation", text, re.M) == ["0", "4", "8", "10"]
    assert len(re.findall(r"^warm-up, windows", text, re.M)) == 3
    assert len(re.findall(r"median [\d.]+ ms", text)) == 3
    with gzip.open(trace / "trace.json.gz", "rt") as file:
        events = json.load(file)["traceEvents"]
    recorded = sorted({e["name"] for e in events if "ProfilerStep" in e.get("name", "")})
    assert recorded == ["ProfilerStep#4", "ProfilerStep#5", "ProfilerStep#6"]


def test_stop_ends_early_and_keeps_the_schedule(eager, shards, monkeypatch, capsys):
    monkeypatch.setitem(train_gpt.PRESETS, "small", CONFIG)
    monkeypatch.setattr(train_gpt, "set_dynamo_limits", lambda: None)
    assert train_gpt.main(["--preset", "small", "--data", str(shards), "--stop", "2"]) == 0
    text = capsys.readouterr().out
    assert re.findall(r"^step (\d+/\d+)  loss", text, re.M) == ["1/10", "2/10"]
    assert "step 2/10  validation loss" in text


@pytest.mark.slow
def test_tiny_learns_from_the_command_line(tmp_path):
    """`--preset tiny`, compiled, in a process of its own: the loss falls, the log is whole."""
    data = ROOT / "data" / "sotu"
    if not data.is_dir():
        from snippets import prepare_data

        data = tmp_path / "sotu"
        prepare_data.prepare("sotu", [], data)
    done = run_cli("--preset", "tiny", "--data", data, "--steps", "12")
    assert (done.returncode, done.stderr) == (0, "")
    losses = [float(x) for x in re.findall(r"validation loss ([\d.]+)", done.stdout)]
    assert losses[0] > 10 and losses[-1] < losses[0] - 2, losses
    assert len(re.findall(r"^step \d+/12  loss", done.stdout, re.M)) == 12


@pytest.mark.slow
def test_compiled_equals_eager(shards):
    """Also: after the warm-up no step compiles anything, windows that change included."""
    train_gpt.set_dynamo_limits()
    model = train_gpt.build_model(CONFIG, CPU)
    optimizer = train_gpt.MuonAndAdam(model, CONFIG)
    compiled, stream = train_gpt.compile_model(model, CONFIG), stream_of(shards)
    train_gpt.warm_up(compiled, optimizer, stream, CONFIG, CONFIG.steps)
    torch.compiler.set_stance("fail_on_recompile")
    try:
        found = [
            train_gpt.train_step(compiled, optimizer, stream, CONFIG, s).item() for s in range(10)
        ]
    finally:
        torch.compiler.set_stance("force_eager")
    with contextlib.ExitStack() as stack:
        stack.callback(torch.compiler.set_stance, "default")
        expected = train(CONFIG, shards, steps=10)[0]
    print(f"largest difference of a loss: {np.abs(np.subtract(found, expected)).max():.1e}")
    assert found == pytest.approx(expected, abs=5e-3)


# --- On a GPU ---


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("tokens", "starts", "window"),
    [(1, [0], 1), (129, [0], 1), (257, [0, 100], 64), (1000, [0, 1, 2, 500, 999], 128),
     (1000, [0, 333], 129), (2048, [0], 384), (777, [0, 5, 700, 700], 10_000)],
)  # fmt: skip
def test_varlen_attention_equals_the_reference(tokens, starts, window):
    """Forward and backward in bf16, against the reference in fp32 on the same numbers."""
    device, scale = torch.device("cuda"), 0.1
    generator = torch.Generator().manual_seed(tokens)
    cu = torch.tensor([*starts, tokens, tokens], dtype=torch.int32, device=device)
    # v is a strided view of the QKV product in the model: so it is here.
    packed = torch.randn(tokens, 3, 6, 128, generator=generator).to(device, torch.bfloat16)
    fast = packed.clone().requires_grad_()
    plain = packed.float().requires_grad_()
    weights = torch.randn(tokens, 6, 128, generator=generator).to(device)
    for x, attend in (
        (fast, train_gpt.varlen_attention),
        (plain, train_gpt.reference_attention),
    ):
        q, k, v = x.unbind(1)
        out = attend(train_gpt.rms_norm(q), train_gpt.rms_norm(k), v, cu, window, tokens, scale)
        (out.float() * weights).sum().backward()
        x.out = out.detach()
    assert_close(fast.out.float(), plain.out, 0.05, f"attention forward, T={tokens} w={window}")
    assert_close(fast.grad.float(), plain.grad, 0.25, f"attention backward, T={tokens} w={window}")


@pytest.mark.gpu
def test_speedrun_steps_compiled_on_the_gpu(tmp_path):
    """Two compiled steps of the real model: finite, falling, nothing stored in the wrong dtype."""
    train_gpt.set_dynamo_limits()
    device = torch.device("cuda")
    config = train_gpt.PRESETS["speedrun"]
    write_shard(tmp_path / "s_train_000000.bin", random_tokens(8 * 16_384 + 1, document=500))
    stream = train_gpt.data_stream(train_gpt.shard_files(tmp_path, "train"), config, device)
    model = train_gpt.build_model(config, device)
    optimizer = train_gpt.MuonAndAdam(model, config)
    compiled = train_gpt.compile_model(model, config)
    losses = [
        train_gpt.train_step(compiled, optimizer, stream, config, step).item() for step in range(3)
    ]
    print(f"losses {losses}, peak {torch.cuda.max_memory_allocated() / 1e9:.1f} GB")
    assert all(np.isfinite(losses)) and losses[2] < losses[0]
    for name, weight in model.named_parameters():
        assert weight.dtype == train_gpt.PARAMETER_TABLE[name].stored, name
        assert torch.isfinite(weight).all(), name


@pytest.mark.gpu
def test_polar_express_on_the_gpu():
    """bf16 and compiled, against the CPU's fp32: the same matrices to bf16's precision."""
    for shape in ((4, 768, 768), (2, 3072, 768), (3, 100, 260)):
        G = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        expected = train_gpt.odd_polynomials(G, train_gpt.POLAR_COEFFICIENTS)
        found = train_gpt.polar_express(G.cuda()).cpu().float()
        assert_close(found, expected, 0.02, f"polar_express {shape}")
