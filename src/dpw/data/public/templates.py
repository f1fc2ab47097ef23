"""Prompt templates of the eleven datasets; the first of each is the one used in training."""

AIRCRAFT = ("a photo of a {}, a type of aircraft.", "a photo of the {}, a type of aircraft.")

_CALTECH101_FORMS = (
    "a photo of {article} {}.",
    "a painting of {article} {}.",
    "{article} plastic {}.",
    "a sculpture of {article} {}.",
    "a sketch of {article} {}.",
    "a tattoo of {article} {}.",
    "{article} toy {}.",
    "a rendition of {article} {}.",
    "{article} embroidered {}.",
    "{article} cartoon {}.",
    "{article} {} in a video game.",
    "{article} plushie {}.",
    "{article} origami {}.",
    "art of {article} {}.",
    "graffiti of {article} {}.",
    "a drawing of {article} {}.",
    "a doodle of {article} {}.",
)

_CIFAR100_FORMS = (
    "a photo of {article} {}.",
    "a blurry photo of {article} {}.",
    "a black and white photo of {article} {}.",
    "a low contrast photo of {article} {}.",
    "a high contrast photo of {article} {}.",
    "a bad photo of {article} {}.",
    "a good photo of {article} {}.",
    "a photo of {article} small {}.",
    "a photo of {article} big {}.",
)

_DTD_FORMS = tuple(
    f"a photo of {{article}} {{}} {kind}." for kind in ("texture", "pattern", "thing", "object")
)


def _with_both_articles(forms: tuple[str, ...]) -> tuple[str, ...]:
    """All forms with "a", then all with "the"."""
    return tuple(form.replace("{article}", article) for article in ("a", "the") for form in forms)


CALTECH101 = _with_both_articles(_CALTECH101_FORMS)
CIFAR100 = _with_both_articles(_CIFAR100_FORMS)
CIFAR100_STEPS = ("a bad photo of a {}.",)
DTD = _with_both_articles(_DTD_FORMS)
EUROSAT = (
    "a centered satellite photo of {}.",
    "a centered satellite photo of a {}.",
    "a centered satellite photo of the {}.",
)
FLOWERS = ("a photo of a {}, a type of flower.",)
FOOD = ("a photo of a {}, a type of food.",)
MNIST = ('a photo of the number: "{}".',)
OXFORD_PET = ("a photo of a {}, a type of pet.",)
STANFORD_CARS = (
    "a photo of a {}, a type of car.",
    "a photo of a {}.",
    "a photo of the {}.",
    "a photo of my {}.",
    "i love my {}!",
    "a photo of my dirty {}.",
    "a photo of my clean {}.",
    "a photo of my new {}.",
    "a photo of my old {}.",
)
SUN397 = ("a photo of a {}.", "a photo of the {}.")
