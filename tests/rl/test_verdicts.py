from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
import torch.nn.functional as F

from audit.errors import EctypeError
from detect.judge_calibration import auroc
from rl import snapshots
from rl.packing import make_packs, sample
from rl.verdicts import Epoch, Progressed, TuneConfig
from tests.rl.processes import ranks
from tests.rl.verdict_data import CHEAT, CONFIG, HONEST, labels, questions, run, scorer

pytestmark = [pytest.mark.megatron, pytest.mark.usefixtures("one_rank")]
ALL_LAYERS = msgspec.structs.replace(CONFIG, train_layers=None)


def weights(judge) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in judge.model.gpt.named_parameters()}


def test_a_score_is_the_probability_of_one_verdict_against_the_other() -> None:
    judge = scorer(ALL_LAYERS)
    asked = questions(9, 3)
    expected = []
    with torch.no_grad():
        for one in asked:
            (pack,) = make_packs([sample(one.tokens, [0] * len(one.tokens))], 100)
            logits = F.linear(judge.model._hidden(pack), judge.model.output_weight)[-1]
            expected.append(logits[[HONEST, CHEAT]].softmax(0)[1].item())
    found = judge.scores(asked)
    assert np.allclose(found, expected, atol=1e-6) and np.std(found) > 1e-3
    others = [msgspec.structs.replace(one, label=1 - one.label) for one in asked]
    assert np.array_equal(judge.scores(others), found), "the label is not seen"
    assert np.array_equal(scorer(CONFIG).scores(asked[::-1])[::-1], scorer(CONFIG).scores(asked)), "nor the order"
    assert np.allclose(scorer(CONFIG).scores(asked), found, atol=1e-6), "kept states change nothing"


@pytest.mark.parametrize("train_layers", [1, 2, 3])
def test_states_that_are_kept_give_the_same_gradient(train_layers: int) -> None:
    config = msgspec.structs.replace(CONFIG, train_layers=train_layers)
    kept, computed = scorer(config), scorer(config)
    computed.below = lambda packs, samples: None  # type: ignore[method-assign]
    before = weights(kept)
    asked = questions(20, 0)
    for judge in (kept, computed):
        judge.train_epoch(asked, config, 1, lambda _: None)
    after = weights(kept)
    assert all(torch.allclose(after[n], w, atol=2e-5) for n, w in weights(computed).items())
    moved = {name for name, weight in after.items() if not torch.equal(weight, before[name])}
    first = 3 - train_layers
    expected = {n for n in before if n.startswith("decoder.layers.") and int(n.split(".")[2]) >= first}
    if train_layers == 3:  # nothing is frozen
        expected |= {"embedding.word_embeddings.weight"}
    assert moved == expected | {"decoder.final_layernorm.weight"}


def test_learns_what_makes_a_cheat_and_has_the_weights_of_the_best_epoch(tmp_path: Path) -> None:
    judge = scorer()
    held_out = questions(80, 2)
    before = auroc(judge.scores(held_out), labels(held_out))
    state = run(tmp_path, judge)
    after = auroc(judge.scores(held_out), labels(held_out))
    assert before < 0.7 and after > 0.95
    assert state.caller == b"told" and state.epochs[0].nll is None
    validation = questions(60, 1)
    assert auroc(judge.scores(validation), labels(validation)) == state.best.quality
    assert len(list(tmp_path.iterdir())) <= CONFIG.patience + 1


def test_killed_in_the_middle_it_ends_with_the_same_weights(tmp_path: Path) -> None:
    whole = scorer()
    run(tmp_path / "whole", whole)
    told: list[str] = []

    def dies(message: str) -> None:
        told.append(message)
        if "epoch 3, batch 4" in message:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "killed", scorer(), progress=dies)
    told.clear()
    resumed = scorer()
    run(tmp_path / "killed", resumed, progress=told.append)
    assert told[0] == "going on after epoch 2" and told[1].startswith("epoch 3, batch 1/")
    assert all(torch.equal(weight, weights(resumed)[name]) for name, weight in weights(whole).items())


def test_a_snapshot_of_another_tuning_is_not_gone_on_from(tmp_path: Path) -> None:
    state = Progressed(fingerprint="another", epochs=(Epoch(number=9, nll=1.0, quality=1.0),), caller=b"")
    snapshots.save(tmp_path, scorer().model, msgspec.msgpack.encode(state), number=9, keep=1)
    done = run(tmp_path, scorer(), msgspec.structs.replace(CONFIG, epochs=1))
    assert [epoch.number for epoch in done.epochs] == [0, 1]
    assert [folder.name for folder in snapshots._all(tmp_path)] == ["epoch-000000", "epoch-000001"]


def test_a_disk_that_refuses_leaves_the_snapshot_before(tmp_path: Path) -> None:
    snapshots.save(tmp_path, scorer().model, b"first", number=1, keep=2)
    (tmp_path / ".epoch-000002.partial").write_text("in the way")
    with pytest.raises((EctypeError, OSError)):
        snapshots.save(tmp_path, scorer().model, b"second", number=2, keep=2)
    newest = snapshots.latest(tmp_path)
    assert newest is not None and snapshots.state_of(newest) == b"first"


def test_patience_counts_from_the_best_that_was_trained() -> None:
    def after(*qualities: float) -> Progressed:
        epochs = tuple(Epoch(number=i, nll=None, quality=q) for i, q in enumerate(qualities))
        return Progressed(fingerprint="", epochs=epochs, caller=b"")

    config = TuneConfig(epochs=9, patience=2)
    assert not after(0.9).is_over(config)
    assert not after(0.9, 0.5, 0.6).is_over(config), "a lucky start ends nothing"
    assert after(0.9, 0.5, 0.6, 0.6, 0.6).is_over(config)
    assert after(0.9, 0.5, 0.6, 0.6).best.number == 2
    assert after(0.1, *[i / 10 for i in range(9)]).is_over(config)


def test_two_ranks_learn_what_one_learns(tmp_path: Path) -> None:
    found = []
    for world in (1, 2):
        with ranks(world, "tests.rl.verdict_data", str(tmp_path / str(world))) as started:
            outputs = [process.communicate() for process in started]
        assert all(process.returncode == 0 for process in started), outputs
        found.append(json.loads(outputs[0][0].splitlines()[-1]))
    one, two = found
    assert np.allclose(one["before"], two["before"], atol=1e-6)
    assert one["epochs"] == two["epochs"]
    assert np.allclose(one["after"], two["after"], atol=0.02), "the order in which gradients are summed is another"
