"""The embedding model: loaded from local files, checked, known by name; and said plainly when it cannot be had."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cems.core import embedding, tokens
from cems.core.embedding import (
    BUNDLED,
    NO_MODEL,
    TOKENIZER_FOLDER,
    Embedder,
    EmbedderUnavailable,
    bundled_model_file,
    load_embedder,
)

SOURCES = Path(__file__).resolve().parents[2] / "src"


def test_vectors_are_unit_vectors_of_the_models_dimension(bundled: Embedder) -> None:
    texts = ["Deploys run on Fridays.", "数据库用三号端口", "🙂", "", " ", "x " * 5_000]
    vectors = bundled.embed(texts)
    assert vectors.shape == (6, bundled.dimension) == (6, 384)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert np.isclose(np.linalg.norm(bundled.embed_query("when do we deploy?")), 1, atol=1e-5)


def test_what_means_the_same_is_nearer_than_what_does_not(bundled: Embedder) -> None:
    question = bundled.embed_query("Which day do releases go out?")
    near, far = bundled.embed(["We ship new versions every Friday.", "The office cat is called Miro."])
    assert question @ near > question @ far + 0.1


def test_no_texts_give_no_vectors(bundled: Embedder) -> None:
    assert bundled.embed([]).shape == (0, 384)


def test_the_identity_names_the_model_and_its_weights(bundled: Embedder) -> None:
    assert bundled.identity == f"{BUNDLED}@8199be6f699a"


def test_a_long_batch_gives_each_text_its_own_vector(bundled: Embedder) -> None:
    texts = [f"fact number {n} is about the topic {n * 13}" for n in range(20)]
    whole = bundled.embed(texts)
    for n in (0, 7, 8, 19):
        assert whole[n] @ bundled.embed([texts[n]])[0] > 0.98


@given(st.lists(st.integers(0, 6_000), max_size=40))
def test_batches_are_of_like_length_and_bounded_and_each_text_keeps_its_place(lengths: list[int]) -> None:
    batches: list[list[int]] = []

    class Measuring:
        def passage_embed(self, texts: list[str], **_: object) -> list[object]:
            batches.append([len(text) for text in texts])
            return [np.array([len(text) + 1, 1.0]) for text in texts]

    vectors = Embedder(Measuring(), "measuring", 2).embed(["x" * length for length in lengths])
    assert np.allclose(vectors[:, 0] / np.maximum(vectors[:, 1], 1e-9), np.array(lengths) + 1, rtol=1e-3)
    assert [length for batch in batches for length in batch] == sorted(lengths)
    assert all(len(batch) <= 8 and (len(batch) == 1 or len(batch) * max(batch) <= 2_400) for batch in batches)


def test_a_query_that_fails_does_not_hold_up_the_next_call() -> None:
    class Broken:
        def query_embed(self, texts: list[str]) -> object:
            raise RuntimeError("broken")

        def passage_embed(self, texts: list[str], **_: object) -> list[object]:
            return [np.ones(4)] * len(texts)

    embedder = Embedder(Broken(), "broken", 4)
    with pytest.raises(RuntimeError, match="broken"):
        embedder.embed_query("x")
    assert embedder.embed(["a", "b"]).shape == (2, 4)


# -- what cannot be loaded -------------------------------------------------------------------------------------------


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:1_000_000])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [cut, flip, lambda path: path.write_bytes(b"")])
def test_a_damaged_model_file_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: object
) -> None:
    real = bundled_model_file()
    assert real
    assert callable(damage)
    copy = tmp_path / "model.onnx"
    copy.write_bytes(real.read_bytes())
    damage(copy)
    monkeypatch.setattr(embedding, "bundled_model_file", lambda: copy)
    with pytest.raises(EmbedderUnavailable, match=r"model\.onnx is damaged .*; run \./install\.sh again"):
        load_embedder(BUNDLED)


def test_a_missing_model_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "_BUNDLED_PACKAGE", "no_such_package_here")
    assert bundled_model_file() is None
    with pytest.raises(EmbedderUnavailable, match=r"is not installed; run \./install\.sh again"):
        load_embedder(BUNDLED)


def test_a_model_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "bundled_model_file", lambda: tmp_path)
    with pytest.raises(EmbedderUnavailable, match="cannot be read"):
        load_embedder(BUNDLED)


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"version": "1.0"}'])
def test_a_damaged_tokenizer_is_said_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    for path in TOKENIZER_FOLDER.iterdir():
        if path.name != "tokenizer.json":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    if content is not None:
        (tmp_path / "tokenizer.json").write_bytes(content)
    monkeypatch.setattr(embedding, "TOKENIZER_FOLDER", tmp_path)
    with pytest.raises(EmbedderUnavailable, match=r"the bundled model does not load \(.*\); run \./install\.sh again"):
        load_embedder(BUNDLED)


def test_no_model_by_choice_is_said_in_a_sentence() -> None:
    with pytest.raises(EmbedderUnavailable, match="embedding is switched off"):
        load_embedder(NO_MODEL)


def test_a_model_that_fastembed_does_not_know_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(EmbedderUnavailable, match="fastembed has no model 'nobody/nothing'; `cems config unset"):
        load_embedder("nobody/nothing", cache=str(tmp_path))


def test_no_model_is_looked_for_on_the_network(tmp_path: Path) -> None:
    script = """
import sys
reached = []
def watch(event, arguments):
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.sendto") or event == "socket.connect":
        reached.append((event, arguments[1:] if event == "socket.connect" else arguments))
        raise OSError("there is no network here")
sys.addaudithook(watch)
from cems.core.embedding import BUNDLED, EmbedderUnavailable, load_embedder
assert load_embedder(BUNDLED).embed_query("hello").shape == (384,)
try:
    load_embedder("BAAI/bge-small-en-v1.5", cache=sys.argv[1])
except EmbedderUnavailable as error:
    print(error)
assert not reached, reached
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "cache")], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": str(SOURCES), "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "does not load" in done.stdout
    assert "embedding_download = true" in done.stdout
    # Nor is anything left in the home, such as a device id for telemetry.
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


# -- tokens ----------------------------------------------------------------------------------------------------------


def test_tokens_are_counted_with_the_models_own_tokenizer() -> None:
    assert tokens.count_tokens("Deploys run on Fridays.") == 6
    assert tokens.count_tokens("") == 0
    assert tokens.count_tokens("汉字") == 2
    assert tokens.count_tokens("\ud83d lone") > 0
    assert tokens.count_tokens("word " * 3_000) == 3_000


def test_without_its_tokenizer_tokens_are_estimated_from_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "The deploy server keeps its tokens in a table."
    exact = tokens.count_tokens(text)
    monkeypatch.setattr(tokens, "TOKENIZER_FOLDER", tmp_path)
    tokens._tokenizer.cache_clear()
    try:
        assert tokens.count_tokens(text) == tokens.estimate_tokens(text) >= exact
        assert tokens.estimate_tokens("汉字\ud83d") > 2
    finally:
        tokens._tokenizer.cache_clear()
