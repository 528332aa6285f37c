"""Fits the gate: `CEMS_BENCH_DATA=… python benchmarks/calibrate.py`. Writes core/recall/gates.json and a plot.

Data: the development halves of the silence prompts (at several sizes of scope) and of the coding set; the person's own
memories, which the session's block gives, are left out. Model: logistic regression with a ridge, on the best few
candidates of each prompt, since the others never decide. Reported: cross-validation with one person, or one project of
the coding set, left out at a time, as `results/gate.json` and `docs/gate.svg`.

The operating point is the lowest threshold at which no size that is judged disturbs more than DISTURBED of the quiet
prompts in cross-validation; the intercept is then shifted, so that this point is the policy's default threshold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from bank import RESULTS, bank, bundled, data_file, digest, json_lines, scope_of, write_result
from coding import statements_of
from numpy.typing import NDArray
from silence import SIZES, Mode, ask_all, load, path_of

from cems.core.policy import RecallPolicy
from cems.core.recall import gate
from cems.core.recall.candidate import Explanation
from cems.core.recall.engine import recall
from cems.core.recall.gate import Level
from cems.core.recall.question import ask
from cems.core.recall.semantic import background_vectors
from cems.core.scope import USER

Array = NDArray[np.float64]

DISTURBED = 0.05
_JUDGED: Mapping[Mode, tuple[int, int]] = {"hybrid": (50, 5_000), "keyword": (50, 500)}
"""The sizes for which it must hold. In smaller scopes there is less that could be given, and less to tell it apart from; by
words alone a made-up scope of 5,000, where the same words are in every sentence, would leave nothing for the others.
"""
_BEST = 5
_RIDGE = 2.0
_CODING = 0
"""The size that stands for the coding set, whose projects have 20 to 40 memories."""
_CODING_WEIGHT = 2.0
PLOT = Path(__file__).resolve().parents[1] / "docs" / "gate.svg"


@dataclass(slots=True)
class Sample:
    """Candidates of prompts, a row each. `prompt` counts prompts up; `group` is what cross-validation leaves out at once."""

    features: list[dict[str, float]] = field(default_factory=list)
    right: list[bool] = field(default_factory=list)
    prompt: list[int] = field(default_factory=list)
    group: list[str] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    needs: dict[int, bool] = field(default_factory=dict)
    size_of: dict[int, int] = field(default_factory=dict)

    def add(
        self, prompt: Mapping[str, Any], found: Explanation, names: Mapping[str, str], size: int, mode: Mode
    ) -> None:
        number = len(self.needs)
        self.needs[number], self.size_of[number] = prompt["kind"] in ("needs", "q"), size
        question = ask(prompt["text"])
        level = _level(question.text) if mode == "hybrid" else Level()
        best = [each for each in found.candidates if each.row["scope"] != USER][:_BEST]
        for each in best:
            self.features.append(
                gate.hybrid_features(each, question, level)
                if mode == "hybrid"
                else gate.keyword_features(each, question)
            )
            self.right.append(self.needs[number] and names[each.id] in prompt["relevant"])
            self.prompt.append(number)
            self.group.append(prompt.get("person") or prompt["project"])
            self.size.append(size)

    def matrix(self, names: Sequence[str]) -> Array:
        return np.array([[row[name] for name in names] for row in self.features], dtype=np.float64)


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--plot", action="store_true", help="only draw what results/gate.json holds")
    if options.parse_args().plot:
        _plot(json.loads((RESULTS / "gate.json").read_text("utf-8")))
        return 0
    fitted, report = {}, {}
    for mode, sample in asyncio.run(_samples()).items():
        fitted[mode], report[mode] = _calibrated(sample, mode)
        print(mode, json.dumps(report[mode]["sizes"], indent=1))
    gate.FILE.write_text(json.dumps(fitted, indent=2) + "\n", "utf-8")
    _plot(report)
    data = {path_of("dev").name: digest(path_of("dev")), "coding": digest(data_file("coding_prompts_dev.jsonl"))}
    print("written to", gate.FILE, PLOT, write_result("gate", {"data": data, **report}))
    return 0


async def _samples() -> dict[Mode, Sample]:
    samples: dict[Mode, Sample] = {"hybrid": Sample(), "keyword": Sample()}
    for size in SIZES:
        for mode, asked in (await ask_all(load("dev"), size, *samples)).items():
            for each in asked:
                samples[mode].add(each.prompt, each.found, each.names, size, mode)
    async with bank(statements_of(json_lines(data_file("coding_memories.jsonl")))) as kept:
        names = {each: min(called) for each, called in kept.names.items()}
        for prompt in json_lines(data_file("coding_prompts_dev.jsonl")):
            for mode, sample in samples.items():
                if "project" in prompt:
                    searcher = kept.hybrid if mode == "hybrid" else kept.keyword
                    found = await recall(prompt["text"], scope_of(prompt["project"]), searcher, RecallPolicy())
                    sample.add(prompt, found, names, _CODING, mode)
    return samples


def _calibrated(sample: Sample, mode: Mode) -> tuple[dict[str, Any], dict[str, Any]]:
    """The model for gates.json, and its report from cross-validation."""
    names = list(sample.features[0])
    matrix, right = sample.matrix(names), np.array(sample.right, dtype=np.float64)
    weights = np.where(np.array(sample.size) == _CODING, _CODING_WEIGHT, 1.0)
    groups = np.array(sample.group)
    held = np.zeros(len(right))
    for group in sorted(set(sample.group)):
        rest = groups != group
        held[~rest] = matrix[~rest] @ (model := _fit(matrix[rest], right[rest], weights[rest]))[:-1] + model[-1]
    point = _operating_point(sample, held, mode)
    model = _fit(matrix, right, weights)
    default = RecallPolicy().gate_threshold
    shift = math.log(default / (1 - default)) - point
    rounded = {name: round(float(value), 4) for name, value in zip(names, model[:-1], strict=True)}
    fitted: dict[str, Any] = {"weights": {"intercept": round(float(model[-1] + shift), 4), **rounded}}
    if mode == "hybrid":
        embedder = bundled()
        filling = background_vectors(embedder)
        pairs = (filling.vectors @ filling.vectors.T)[np.triu_indices(len(filling.vectors), 1)]
        fitted["model"] = embedder.identity
        fitted["background"] = {"mean": round(float(pairs.mean()), 4), "deviation": round(float(pairs.std()), 4)}
    sizes = {str(size): _rates(sample, held, point, size) for size in sorted(set(sample.size))}
    curve = {
        str(size): [
            {"logit": round(float(at), 3), **_rates(sample, held, at, size)}
            for at in np.arange(point - 2.5, point + 4, 0.25)
        ]
        for size in sorted(set(sample.size))
    }
    return fitted, {"sizes": sizes, "curve": curve, "default_threshold": default}


def _fit(matrix: Array, right: Array, weights: Array) -> Array:
    """Weights and, last, the intercept of a ridge logistic regression, by Newton's method on standardised features."""
    mean, deviation = matrix.mean(0), matrix.std(0) + 1e-9
    design = np.c_[(matrix - mean) / deviation, np.ones(len(matrix))]
    ridge = np.r_[np.full(matrix.shape[1], _RIDGE), 1e-6]
    model = np.zeros(design.shape[1])
    for _ in range(20):
        guess = 1 / (1 + np.exp(-np.clip(design @ model, -30, 30)))
        slope = design.T @ (weights * (guess - right)) + ridge * model
        curvature = (design * (weights * guess * (1 - guess))[:, None]).T @ design + np.diag(ridge)
        model = model - np.linalg.solve(curvature, slope)
    plain = model[:-1] / deviation
    return np.r_[plain, model[-1] - plain @ mean]


def _operating_point(sample: Sample, logits: Array, mode: Mode) -> float:
    """The lowest logit at which no size that is judged disturbs more than DISTURBED of its quiet prompts."""
    least, most = _JUDGED[mode]
    judged = {size for size in sample.size if least <= size <= most}
    for at in np.arange(-4, 4, 0.01):
        if all(_rates(sample, logits, at, size)["disturbed"] <= DISTURBED for size in judged):
            return float(at)
    raise SystemExit("at no threshold is it silent enough")


def _rates(sample: Sample, logits: Array, at: float, size: int) -> dict[str, float]:
    quiet = [number for number, needs in sample.needs.items() if not needs and sample.size_of[number] == size]
    needy = [number for number, needs in sample.needs.items() if needs and sample.size_of[number] == size]
    passed = [i for i in np.flatnonzero(logits >= at) if sample.size[i] == size]
    given = {sample.prompt[i] for i in passed}
    served = {sample.prompt[i] for i in passed if sample.right[i]}
    return {
        "disturbed": round(len(given & set(quiet)) / len(quiet), 3),
        "served": round(len(served) / len(needy), 3),
        "precision": round(sum(sample.right[i] for i in passed) / len(passed), 3) if passed else 1.0,
    }


def _level(text: str) -> Level:
    return background_vectors(bundled()).level(bundled().embed_query(text))


def _plot(report: Mapping[str, Any]) -> None:
    """Served and precise against disturbed, a line per size of scope, cross-validated."""
    mpl.use("svg")
    # The same picture for the same numbers.
    mpl.rcParams["svg.hashsalt"] = "gate"
    mpl.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6), sharex=True, layout="constrained")
    for size, points in sorted(report["hybrid"]["curve"].items(), key=lambda each: int(each[0])):
        label = "coding set" if int(size) == _CODING else f"{int(size):,} memories"
        disturbed = [100 * point["disturbed"] for point in points]
        axes[0].plot(disturbed, [100 * point["served"] for point in points], label=label)
        axes[1].plot(disturbed, [point["precision"] for point in points], label=label)
    axes[0].set(ylabel="prompts that need something and get it, %", xlim=(0, 15), ylim=(0, 80))
    axes[1].set(ylabel="precision of what is injected", ylim=(0, 1))
    for each in axes:
        each.axvline(100 * DISTURBED, color="grey", linewidth=0.8, linestyle=":")
        each.set_xlabel("quiet prompts that get something, %")
        each.grid(alpha=0.3)
    axes[0].legend(fontsize=8)
    figure.savefig(PLOT, metadata={"Date": None})


if __name__ == "__main__":
    sys.exit(main())
