"""Teaching a folder: few images are enough, and what `learn` says is what `predict` answers."""

from dataclasses import replace

import pytest
import torch

from dpw import ContinualCLIP, InputError, load_benchmark
from dpw.data.task import Task
from dpw.engine.teaching import LearnReport, named
from dpw.methods import Candidates, ClassGroup

QUICK = {"learning_rate": 0.1, "steps": 8}
FEW = [("dpw", 12), ("dpw", 1), ("dpw-ridge", 5), ("dpw-ridge", 1)]


def of_mini(name: str, shots: int, classes: int = 5, tests: int = 6) -> Task:
    """Some classes of a task of `mini`, with few images to learn from and some to be asked about."""
    task = load_benchmark("mini", order=[name], shots=shots).tasks[0]
    assert task.test is not None

    def cut(split, a_class):
        rows = [
            row
            for label in range(classes)
            for row in [row for row, own in enumerate(split.labels) if own == label][:a_class]
        ]
        return split.select(rows)

    return replace(
        task,
        classes=task.classes[:classes],
        train=cut(task.train, shots),
        val=None,
        test=cut(task.test, tests),
    )


def answered(learner: ContinualCLIP, task: Task) -> list:
    assert task.test is not None
    return learner.predict([task.test[row].image for row in range(len(task.test))])


@pytest.mark.parametrize(("method", "shots"), FEW)
def test_learn_says_what_predict_answers_however_few_the_images(method, shots):
    learner, task = ContinualCLIP.from_pretrained("mini", method), of_mini("signs", shots)
    report = learner.learn(task, **QUICK)
    answers = answered(learner, task)
    right = [a.label == task.classes[label] for a, label in zip(answers, task.test.labels, strict=True)]
    assert report.accuracy == pytest.approx(100 * sum(right) / len(right))
    assert len({answer.label for answer in answers}) > 1, "one class for all"
    assert sorted(answer.confidence for answer in answers)[len(answers) // 2] > 0.2, "switched off"
    assert max(answer.probability for answer in answers) > 2 / len(task.classes), "ties"
    assert report.images == shots * len(task.classes)
    assert report.held_out == len(task.test)


def test_learning_changes_the_answers_of_five_images_a_class():
    learner, task = ContinualCLIP.from_pretrained("mini", "dpw"), of_mini("signs", 5)
    learner.learn(task, **QUICK)
    after = answered(learner, task)
    plain = ContinualCLIP.from_pretrained("mini").predict(
        [task.test[row].image for row in range(len(task.test))], classes=task.classes
    )
    assert [a.probability for a in after] != [b.probability for b in plain]


def test_one_class_can_be_learned_and_strangers_need_not_be_it():
    learner, task = ContinualCLIP.from_pretrained("mini"), of_mini("signs", 5, classes=1)
    report = learner.learn(task, **QUICK)
    assert report.accuracy == 100.0
    assert {answer.label for answer in answered(learner, task)} == {task.classes[0]}


def test_a_class_that_two_tasks_know_is_right_by_its_name():
    learner = ContinualCLIP.from_pretrained("mini")
    first = of_mini("signs", 2, classes=3)
    learner.learn(first, **QUICK)
    again = learner.learn(replace(first, name="signs again"), **QUICK)
    answers = answered(learner, first)
    right = [a.label == first.classes[label] for a, label in zip(answers, first.test.labels, strict=True)]
    assert again.accuracy == pytest.approx(100 * sum(right) / len(right))


def test_answers_are_read_by_name():
    task = of_mini("signs", 1, classes=2)
    groups = [ClassGroup("other", ("moon", task.classes[1])), ClassGroup(task.name, task.classes)]
    found = named(torch.tensor([0, 1, 2, 3]), Candidates.learned(groups), task)
    assert found.tolist() == [-1, 1, 0, 1]


def test_without_images_kept_apart_nothing_is_claimed():
    learner, task = ContinualCLIP.from_pretrained("mini"), of_mini("signs", 2, classes=2)
    report = learner.learn(task, use_all=True, **QUICK)
    assert (report.accuracy, report.helped, report.held_out) == (None, None, 0)
    assert report.images == 2 * 2 + 2 * 6
    assert "nothing says how well" in report.sentences()[-1]


def test_it_says_so_when_learning_did_not_help():
    report = LearnReport("birds", 2, 40, 1.0, None, 20, 50.0, 50.0, 60.0, 70.0)
    assert report.helped is False
    assert "did not help" in report.sentences()[-1]
    assert "too few to say" in replace(report, held_out=19).sentences()[-1]
    knew = replace(report, own_accuracy=100.0, zero_shot=100.0)
    assert "knew all of them already" in knew.sentences()[-1]
    better = replace(report, own_accuracy=80.0)
    assert better.helped is True
    assert "did not help" not in better.sentences()[-1]
    assert better.as_json()["helped"] is True


def test_copies_among_the_images_kept_apart_are_counted_and_named():
    learner, task = ContinualCLIP.from_pretrained("mini"), of_mini("signs", 2, classes=2, tests=3)
    assert learner.learn(task, **QUICK).copies == 0
    copied = replace(task, name="copied", test=task.train.select([0, 1, 1]))
    report = learner.learn(copied, **QUICK)
    assert report.copies == report.as_json()["copies"] == 3
    assert report.sentences()[2].startswith("3 of them are copies of images it learned from")


WRONG = [
    ({"steps": 3, "epochs": 2}, "not both"),
    ({"steps": 0}, "steps must be above 0"),
    ({"time_limit": -1}, "time_limit must be above 0"),
    ({"learning_rate": float("nan")}, "learning_rate is nan; give a number"),
    ({"seed": -1}, "seed is -1"),
]


@pytest.mark.parametrize(("wish", "sentence"), WRONG)
def test_wishes_that_no_training_can_have_are_refused(toy, wish, sentence):
    learner = ContinualCLIP.from_pretrained("mini")
    with pytest.raises(InputError, match=sentence):
        learner.learn(Task.from_folder(toy / "data" / "birds"), **wish)


def test_a_wish_without_effect_is_refused(toy):
    learner = ContinualCLIP.from_pretrained("mini", settings={"training.iterations": 1})
    with pytest.raises(InputError, match="batch_size has no effect"):
        learner.learn(Task.from_folder(toy / "data" / "birds"), batch_size=4)
