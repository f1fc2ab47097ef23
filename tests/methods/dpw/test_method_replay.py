"""The authors' whole procedure on three toy tasks, replayed step by step: losses, weights, accuracies."""

import torch
from torch import Tensor

from dpw.data.images import Images
from dpw.data.task import Split, Task
from dpw.engine.optimization import learning_rate, make_optimizer
from dpw.functional import transfer_avg_last
from dpw.methods import Candidates, create
from dpw.methods.dpw.method import DPW
from dpw.methods.routing.gaussian import sample_gaussian
from tests.helpers.checks import nonempty
from tests.helpers.golden_cases import align, assert_close, load
from tests.helpers.golden_methods import backbone_with_prompts, settings, shared_down, stack, task_tensors

BLOCKS = 2
TOWERS = (("image", "visual"), ("text", "text"))


class ArrayImages:
    """Toy training images in one batch."""

    def __init__(self, pixels: Tensor, labels: Tensor) -> None:
        self.pixels, self.labels = pixels, labels

    def __len__(self) -> int:
        return len(self.pixels)

    def batches(self):
        yield self.pixels, self.labels


class Replay:
    """The authors' run, driven by the batches they drew."""

    def __init__(self) -> None:
        self.case, self.meta = load("m_end_to_end_full")
        self.images, _ = load("m_end_to_end_images")
        backbone, self.tasks, _ = backbone_with_prompts()
        made = settings(self.meta, fit_drop_last=False, **{"training.epochs": self.meta["epochs"]})
        self.method: DPW = create("dpw", backbone, "official", made)
        self.method.load_shared_state(shared_down(self.case, BLOCKS, "init.{}"))
        self.batches = iter(zip(self.meta["train_batches"], self.meta["losses"], strict=True))

    def data(self, split: str, index: int) -> tuple[Tensor, Tensor]:
        return self.images[f"{split}{index}.images_u8"], self.images[f"{split}{index}.labels"]

    def begin(self, index: int) -> None:
        """Start a task from the authors' random draws; what is not random must come out by itself."""
        pixels, labels = self.data("train", index)
        learned = self.tasks[index]
        arrays = [image.permute(1, 2, 0).numpy() for image in pixels]
        split = Split.from_arrays(arrays, labels.tolist(), learned.name)
        task = Task(learned.name, learned.classes, learned.templates, split)
        self.method.begin_task(task, ArrayImages(pixels, labels))
        features, _ = self.method.collect_features(ArrayImages(pixels, labels))
        assert_close(self.method.head_factor(task, features, labels), self.meta["factors"][index], "F")
        rows = torch.tensor(self.meta["fit_rows"][index])
        fitted = sample_gaussian(features[rows], self.method.config.ridge)
        self.method.bank[index]["router"] = fitted
        assert_close(fitted["mean"], self.case["out_task_mean"][index], "mean")
        for ours, theirs in TOWERS:
            tower = self.method.bank[index][ours]
            assert tower.heads == self.meta["prefix_heads"][f"{theirs}.0"][index]
            self.start_from(index, ours, theirs)

    def start_from(self, index: int, ours: str, theirs: str) -> None:
        """Take the signs of singular vectors, and the random U, from the authors' run."""
        tower = self.method.bank[index][ours]
        where = f"task{index}.init.{{}}.task{index}"
        for block in range(BLOCKS):
            for name, golden in (("weight", "repa_weight"), ("values", "prefix_value")):
                expected = self.case[where.format(f"{theirs}.{block}") + f".{golden}"]
                rows = getattr(tower, name)[block].detach().movedim(-2, 0).flatten(1)
                same = expected.movedim(-2, 0).flatten(1)
                if name == "values":
                    rows, same = rows.T, same.T
                assert_close(align(rows, same), same, f"initial {name}")
        up = stack(self.case, theirs, "adapter_up_weight", BLOCKS, "init.{}").transpose(1, 2)
        with torch.no_grad():
            tower.weight.copy_(stack(self.case, theirs, "repa_weight", BLOCKS, where))
            tower.values.copy_(stack(self.case, theirs, "prefix_value", BLOCKS, where))
            tower.up.copy_(up)

    def train(self, index: int) -> None:
        """All epochs of one task; the best validation epoch is kept."""
        method, config = self.method, self.method.config.training
        optimizer = make_optimizer([{"params": list(method.trainable().values())}], config, self.meta["lr"])
        pixels, labels = self.data("train", index)
        total = self.meta["epochs"] * (len(pixels) // self.meta["batch_size"])
        best, accuracies = None, []
        for step in range(total):
            (task, rows, last), expected = next(self.batches)
            assert task == index
            optimizer.param_groups[0]["lr"] = learning_rate(config, self.meta["lr"], step, total)
            method.train()
            loss = method(pixels[rows], labels[rows])
            assert_close(loss.detach(), torch.tensor(expected), f"loss of step {step}")
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if last:
                method.end_epoch()
                accuracies.append(self.validate(index))
                if best is None or accuracies[-1] > max(accuracies[:-1]):
                    best = method.snapshot()
        method.restore(best)
        epoch, accuracy = self.meta["best_epoch_and_val_acc"][index]
        assert max(accuracies) == accuracy
        assert accuracies.index(accuracy) == epoch
        method.end_task(ArrayImages(pixels, labels))

    def validate(self, index: int) -> float:
        """Known task, full weight; the authors' statistics also see these images."""
        pixels, labels = self.data("val", index)
        self.method.eval()
        with torch.no_grad():
            return (self.method.task_logits(pixels).argmax(dim=1) == labels).double().mean().item()

    def accuracy_row(self) -> list[float]:
        """Every test set with its own classes, one batch each, as the authors evaluate."""
        row = []
        for index, task in enumerate(self.tasks):
            pixels, labels = self.data("test", index)
            with torch.no_grad():
                logits = self.method.logits(Images.of(pixels), Candidates.among(task.group()))
            row.append((logits.argmax(dim=1) == labels).double().mean().item())
        return row


def test_the_authors_run_is_replayed():
    replay = Replay()
    matrix = []
    for index in range(3):
        replay.begin(index)
        replay.train(index)
        expected = task_tensors(replay.case, index, BLOCKS, f"task{index}.best.")
        for name, tensor in nonempty(expected.items()):
            assert_close(replay.method.task_state(index)[name], tensor, f"task {index}: {name}")
        matrix.append(replay.accuracy_row())
    assert matrix == replay.meta["accuracy_matrix"]
    result = transfer_avg_last(matrix)
    assert [round(100 * value, 1) for value in result.avg] == replay.meta["metrics"][1]["avg"]

    pixels = torch.cat([replay.data("test", index)[0] for index in range(3)])
    with torch.no_grad():
        logits = replay.method.logits(
            Images.of(pixels), Candidates.learned([task.group() for task in replay.tasks])
        )
    assert_close(logits, load("m_end_to_end_cil_logits_full")[0]["out_logits"], "class-incremental logits")
