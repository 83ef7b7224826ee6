"""Fit what the package ships for flows that it does not know: the head of acts, and options.

Run after a change of the phrase bank, of the practice registries or of what the heads see: ``python
tools/acts_weights.py``. It takes six minutes, and writes the same bytes each time on one machine. A test fails while
the weights are of another bank or of other registries. ``--measure`` prints what the registries give instead. After
another training of the reader run it with ``--pool``: it fits how much the reader and the head of acts count.

The head of acts learns from the phrase bank and from the registries of eval/suites/practice; its sureness is measured
on the dataset's training turns, which taught it nothing. What is fitted on its probabilities is fitted on those of
heads that have not seen the registry.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "eval" / "benchmarks"))
sys.path.append(str(Path(__file__).resolve().parent))

from safetensors.numpy import save
from weights import acts, choices, measure, pool
from weights.ground import PRACTICE, practice, sha256_of

from jazzmine_dspy import artifacts
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.models.base import canonical_json, sha256
from jazzmine_dspy.optimize.local.weights import head_example
from jazzmine_dspy.program.heads import options as shipped_options
from jazzmine_dspy.program.heads.acts import bank, fit, model
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.reader import reading
from jazzmine_dspy.program.turn import TurnProgram

ROOT = Path(__file__).resolve().parents[1]


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit and write, or measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--measure", action="store_true", help="print what the practice registries give, and write nothing"
    )
    parser.add_argument("--pool", action="store_true", help="fit the pool of the reader and the head alone")
    options = parser.parse_args(arguments)
    if options.pool:
        _fit_pool()
    elif options.measure:
        registries = practice()
        embedder = registries[0].program().bindings.embedder
        assert embedder is not None
        print(*measure.lines(measure.of(embedder, registries)), sep="\n")
    else:
        _fit()


def _fit() -> None:
    dataset = load_dataset(ROOT / "datasets" / "support")
    program = TurnProgram(dataset.flows, policy=Policy().named("fallback"))
    artifacts.bind_recall(program, "minilm")
    embedder = program.bindings.embedder
    assert embedder is not None
    registries = practice()
    rows = [acts.rows_of(each) for each in registries]
    head = acts.head_of(embedder, rows)
    labelled = [e for e in dataset.examples("train", "dev_a", "dev_b") if e.labels.commands is not None]
    examples = [head_example(program, each) for each in labelled]
    # These turns are of flows that the head never saw: nothing was fitted on them.
    head = fit.measured(head, examples, head.scores(fit.labelled_rows(examples).shown))
    target = Path(model.__file__).with_name(model.WEIGHTS)
    state = head.to_state()
    metadata = {
        "head": canonical_json(state.settings),
        "embedder": embedder.fingerprint,
        "bank": sha256(Path(bank.__file__).with_name(bank.FILE).read_text("utf-8")),
        "practice": sha256_of(PRACTICE),
    }
    target.write_bytes(save(state.arrays, metadata))
    source = Path(model.__file__)
    told = re.sub(r'SHIPPED = "\w+"', f'SHIPPED = "{head.fingerprint}"', source.read_text("utf-8"))
    source.write_text(told, "utf-8")
    print(f"{target}: {target.stat().st_size:,} bytes; {head.sure}")
    heads = acts.left_out(embedder, registries, rows)
    meant = [
        row
        for each, seen in zip(registries, rows, strict=True)
        for row in choices.rows_of(each, seen, heads[each.fold], embedder)
    ]
    _write(Path(shipped_options.__file__).with_name(shipped_options.FILE), choices.fit(meant))


def _fit_pool() -> None:
    registries, dataset = practice(), load_dataset(ROOT / "datasets" / "support")
    embedder = registries[0].program().bindings.embedder
    assert embedder is not None
    heads = acts.left_out(embedder, registries, [acts.rows_of(each) for each in registries])
    program = TurnProgram(dataset.flows, policy=Policy().named("local"))
    artifacts.bind_recall(program, "minilm")
    labelled = [e for e in dataset.examples("train", "dev_a", "dev_b") if e.labels.commands is not None]
    rows = [*pool.rows_of(program, labelled), *pool.known_rows()]
    for each in registries:
        if each.name in pool.UNSEEN:
            rows += pool.rows_of(each.program(heads[each.fold]), each.examples)
    _write(Path(reading.__file__).with_name(reading.FILE), pool.fit(rows))


def _write(target: Path, data: object) -> None:
    target.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n", "utf-8")
    print(target)


if __name__ == "__main__":
    main()
