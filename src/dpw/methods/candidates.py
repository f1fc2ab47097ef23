"""Between which classes a prediction is made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpw.data.prompts import DEFAULT_TEMPLATE, is_text, readable, spell
from dpw.errors import InputError, a_number, some_texts

LONGEST = 1000  # letters of a class name or template that somebody gives: far more than 77 tokens


@dataclass(frozen=True)
class ClassGroup:
    """Classes that belong together, with the templates their text features are averaged over."""

    name: str
    classes: tuple[str, ...]
    templates: tuple[str, ...] = (DEFAULT_TEMPLATE,)

    def prompts(self) -> list[list[str]]:
        """The prompts of every class, one list for each template."""
        return [[spell(template, name) for name in self.classes] for template in self.templates]


@dataclass(frozen=True)
class Candidates:
    """The class list of one question to a method.

    `by_task` asks over all learned tasks at once (class-incremental): each group is the learned task of that
    name and is scored with that task's own parameters. Otherwise one group is any class list (that of a
    test set, or zero-shot classes), scored with whichever task each image is routed to; several groups are
    domains of which some are learned and some are not (X-TAIL).
    """

    groups: tuple[ClassGroup, ...]
    by_task: bool = False

    @classmethod
    def among(cls, group: ClassGroup) -> "Candidates":
        """Choose between the classes of one group."""
        return cls((group,))

    @classmethod
    def learned(cls, groups: Sequence[ClassGroup]) -> "Candidates":
        """Choose between all classes of all learned tasks."""
        return cls(tuple(groups), by_task=True)

    @classmethod
    def across(cls, groups: Sequence[ClassGroup]) -> "Candidates":
        """Choose between all classes of domains of which only some are learned."""
        return cls(tuple(groups))

    @property
    def spans_domains(self) -> bool:
        """Whether classes of several domains stand against each other."""
        return self.by_task or len(self.groups) > 1

    @property
    def classes(self) -> list[tuple[str, str]]:
        """Every candidate as (group, class), in the order of the logits."""
        return [(group.name, name) for group in self.groups for name in group.classes]

    def known_to(self, task: str, classes: Sequence[str]) -> dict[int, int]:
        """Which candidates a task knows: position among the logits to the number of the task's own class.

        A group of the task's name is its own; where there is none, classes are known by their names.
        """
        own = {readable(name): number for number, name in enumerate(classes)}
        named = any(group.name == task for group in self.groups)
        return {
            column: own[readable(name)]
            for column, (group, name) in enumerate(self.classes)
            if readable(name) in own and (group == task or not named)
        }


def among_given(classes: Sequence[str], template: str) -> Candidates:
    """Choose between classes that somebody names; each once, in a template with one place for the name."""
    if isinstance(classes, str):
        raise InputError(f"classes is the single text {classes!r}; give a list, as in [{classes!r}]")
    names = some_texts(classes, "classes")
    if not all(names):
        raise InputError(f"classes is {list(names)!r:.80}; give a list of names, such as ['crow', 'swan']")
    if not names or len(set(names)) != len(names):
        raise InputError(f"give at least one class and each only once, not {list(names)!r:.200}")
    if not isinstance(template, str) or template.count("{}") != 1:
        raise InputError(f"the template {template!r:.200} needs exactly one {{}} for the class name")
    for text in (template, *names):
        if len(text) > LONGEST:
            raise InputError(
                f"{text!r:.80} has {len(text)} letters: give class and template {LONGEST} at most"
            )
        if not is_text(text):
            raise InputError(f"{text!r:.200} is no text (it has half of a character): spell it in Unicode")
    return Candidates.among(ClassGroup("given", names, (template,)))


def refuse_impossible(top: int, unknown: float | None) -> None:
    """Refuse a number of classes to name, or a share of images, that cannot be."""
    if not isinstance(top, int) or isinstance(top, bool) or top < 1:
        raise InputError(f"top = {top!r} names no class; give a whole number of at least 1")
    if unknown is not None and not 0 < a_number(unknown, "unknown") < 1:
        raise InputError(f"unknown = {unknown} is no share of images: give one in (0, 1), such as 0.05")


def equal_names(groups: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Class names that several groups know, with the names of these groups."""
    known: dict[str, list[str]] = {}
    for group, classes in groups.items():
        for name in dict.fromkeys(map(readable, classes)):
            known.setdefault(name, []).append(group)
    return {name: sharing for name, sharing in known.items() if len(sharing) > 1}
