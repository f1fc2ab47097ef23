"""What a model that has learned something can be asked: predictions, features, what it knows."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

from torch import Tensor

from dpw.data.image_like import ArrayLike, FileLike, ImageLike, is_one_image, several_images
from dpw.data.pixels import PixelCache
from dpw.data.prompts import DEFAULT_TEMPLATE
from dpw.engine.embedding import image_features, text_features
from dpw.engine.prediction import Prediction, predict_images
from dpw.errors import InputError, a_text
from dpw.methods import Candidates, Method
from dpw.methods.candidates import among_given, refuse_impossible


class Predictor:
    """Answers for images of any task; `ContinualCLIP` is one that also learns.

    Example:
        >>> from dpw import ContinualCLIP
        >>> ContinualCLIP.from_pretrained("mini")
        ContinualCLIP(dpw-ridge on mini, cpu; nothing learned yet)
    """

    def __init__(self, method: Method, cache: PixelCache) -> None:
        """Answer by a method that stands on a backbone, reading images through a cache."""
        self.method = method
        self.cache = cache

    def __repr__(self) -> str:
        """Method, CLIP, device, and what is learned."""
        backbone = self.method.backbone
        known = ", ".join(f"{name} ({len(classes)} classes)" for name, classes in self.classes.items())
        return (
            f"{type(self).__name__}({self.method.name} on {backbone.reference}, {backbone.device}; "
            f"{f'learned: {known}' if known else 'nothing learned yet'})"
        )

    @property
    def tasks(self) -> list[str]:
        """Names of the learned tasks in order.

        Example:
            >>> from dpw import ContinualCLIP
            >>> ContinualCLIP.from_pretrained("mini").tasks
            []
        """
        return self.method.task_names

    @property
    def classes(self) -> dict[str, tuple[str, ...]]:
        """The classes of every learned task, by its name.

        Example:
            >>> from dpw import ContinualCLIP
            >>> ContinualCLIP.from_pretrained("mini").classes
            {}
        """
        return {task.name: task.classes for task in self.method.tasks}

    # ------------------------------------------------------------------------------------------- predict

    @overload
    def predict(  # type: ignore[overload-overlap]
        self,
        images: FileLike,
        *,
        classes: Sequence[str] | None = None,
        template: str = ...,
        top: int = ...,
        unknown: float | None = None,
    ) -> Prediction: ...

    @overload
    def predict(
        self,
        images: Sequence[ImageLike] | Iterator[ImageLike],
        *,
        classes: Sequence[str] | None = None,
        template: str = ...,
        top: int = ...,
        unknown: float | None = None,
    ) -> list[Prediction]: ...

    @overload
    def predict(  # type: ignore[overload-overlap]
        self,
        images: ArrayLike,
        *,
        classes: Sequence[str] | None = None,
        template: str = ...,
        top: int = ...,
        unknown: float | None = None,
    ) -> Prediction: ...

    @overload
    def predict(
        self,
        images: Iterable[ImageLike],
        *,
        classes: Sequence[str] | None = None,
        template: str = ...,
        top: int = ...,
        unknown: float | None = None,
    ) -> list[Prediction]: ...

    def predict(
        self,
        images: ImageLike | Iterable[ImageLike],
        *,
        classes: Sequence[str] | None = None,
        template: str = DEFAULT_TEMPLATE,
        top: int = 5,
        unknown: float | None = None,
    ) -> Prediction | list[Prediction]:
        """Classify images among all learned classes, or among given ones, learned or not.

        Args:
            images: one image (a path, a Pillow image, an array `(H, W, 3)` or `(H, W)`, a tensor `(3, H, W)`,
                bytes, an open file) or several: a list, a generator, a stack of four dimensions.
            classes: choose between these names; all learned classes by default.
            template: the prompt for given classes, with {} for the name.
            top: how many classes a prediction names at most.
            unknown: answer "unknown" for an image less typical of every learned task than all but this share
                of the task's own images, such as 0.05.

        Returns:
            A prediction for one image, or a list of them. An image that cannot be read gets an `error`, and
            the others are still answered.

        Raises:
            InputError: what was given is no image, nothing is learned and no classes are given, or the
                classes or template make no sense.

        Example:
            >>> from PIL import Image
            >>> from dpw import ContinualCLIP
            >>> learner = ContinualCLIP.from_pretrained("mini")
            >>> answer = learner.predict(Image.new("RGB", (32, 32)), classes=["circle", "square"])
            >>> answer.label in ("circle", "square"), len(answer.alternatives)
            (True, 1)
        """
        single = is_one_image(images)
        wanted: Any = [images] if single else images
        answers = list(
            self.predict_stream(wanted, classes=classes, template=template, top=top, unknown=unknown)
        )
        return answers[0] if single else answers

    def predict_stream(
        self,
        images: Iterable[ImageLike],
        *,
        classes: Sequence[str] | None = None,
        template: str = DEFAULT_TEMPLATE,
        top: int = 5,
        unknown: float | None = None,
    ) -> Iterator[Prediction]:
        """As `predict` for several images, answer by answer, without keeping images or answers.

        Args:
            images: a list or generator of images; as many as you like.
            classes: choose between these names; all learned classes by default.
            template: the prompt for given classes, with {} for the name.
            top: how many classes a prediction names at most.
            unknown: answer "unknown" for an image less typical of every learned task than all but this share
                of the task's own images, such as 0.05.

        Returns:
            The predictions in order; images are taken only as answers are asked for.

        Raises:
            InputError: as `predict`.

        Example:
            >>> from PIL import Image
            >>> from dpw import ContinualCLIP
            >>> learner = ContinualCLIP.from_pretrained("mini")
            >>> shades = (Image.new("L", (32, 32), shade) for shade in range(0, 250, 50))
            >>> sum(answer.error is None for answer in learner.predict_stream(shades, classes=["circle"]))
            5
        """
        refuse_impossible(top, unknown)
        question = self.question(classes, template)
        return predict_images(self.method, self.cache, several_images(images), question, top, unknown)

    def question(self, classes: Sequence[str] | None, template: str = DEFAULT_TEMPLATE) -> Candidates:
        """Between which classes a prediction chooses: the given ones, or all learned ones.

        Args:
            classes: names of classes, each once; None for all learned ones.
            template: the prompt for given classes, with {} for the name.

        Returns:
            The candidates, as `Method.logits` takes them.

        Raises:
            InputError: nothing is learned and no classes are given, or the classes or template make no sense.

        Example:
            >>> from dpw import ContinualCLIP
            >>> ContinualCLIP.from_pretrained("mini").question(["crow", "swan"]).classes
            [('given', 'crow'), ('given', 'swan')]
        """
        if classes is not None:
            return among_given(classes, template)
        if not self.tasks:
            raise InputError("nothing is learned yet: learn a task first, or give classes to choose from")
        return Candidates.learned([task.group() for task in self.method.tasks])

    # -------------------------------------------------------------------------------------------- features

    def embed_images(self, images: ImageLike | Iterable[ImageLike], *, task: str | None = None) -> Tensor:
        """Features of images, of length one, so that a product of two is their cosine.

        Args:
            images: one image or several, as for `predict`.
            task: a learned task whose parameters act with full weight; plain CLIP by default.

        Returns:
            A tensor `(E,)` for one image, `(N, E)` for several, on the CPU.

        Raises:
            InputError: an image cannot be read, no such task is learned, or the method keeps no features of
                single tasks.

        Example:
            >>> import numpy as np
            >>> from dpw import ContinualCLIP
            >>> learner = ContinualCLIP.from_pretrained("mini")
            >>> learner.embed_images(np.zeros((32, 32, 3), dtype=np.uint8)).shape
            torch.Size([128])
        """
        single = is_one_image(images)
        wanted = [images] if single else several_images(images)
        features = image_features(self.method, self.cache, wanted, _task(task))
        return features[0] if single else features

    def embed_texts(self, texts: str | Iterable[str], *, task: str | None = None) -> Tensor:
        """Features of texts in the space of the images, of length one.

        Args:
            texts: one prompt such as "a photo of a cat.", or several.
            task: a learned task whose parameters act with full weight; plain CLIP by default.

        Returns:
            A tensor `(E,)` for one text, `(N, E)` for several, on the CPU.

        Raises:
            InputError: a text is too long or no text, no such task is learned, or the method keeps no
                features of single tasks.

        Example:
            >>> from dpw import ContinualCLIP
            >>> learner = ContinualCLIP.from_pretrained("mini")
            >>> cat, dog = learner.embed_texts(["a photo of a cat.", "a photo of a dog."])
            >>> bool(cat @ dog < 1)
            True
        """
        wanted = [texts] if isinstance(texts, str) or not isinstance(texts, Iterable) else list(texts)
        if wrong := [text for text in wanted if not isinstance(text, str)]:
            raise InputError(f"{wrong[0]!r} is no text; give words in quotes, or a list of such")
        features = text_features(self.method, wanted, _task(task))
        return features[0] if isinstance(texts, str) else features


def _task(name: Any) -> str | None:
    """The name of a task that somebody asks for, or None."""
    return None if name is None else a_text(name, "task")
