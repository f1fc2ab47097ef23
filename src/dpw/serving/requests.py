"""What a request to `/predict` holds, as a form or as JSON: images and a question, or why it is refused."""

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from dpw.data.prompts import DEFAULT_TEMPLATE
from dpw.serving.served import Question

FIELDS = ("images", "classes", "template", "top", "unknown")
FORM = "multipart/form-data"
LONGEST_NAME = 1000  # letters of an image's name that an answer repeats
EXAMPLE = '{"images": ["<base64>"], "classes": ["crow", "swan"], "top": 3}'


class RefusedError(Exception):
    """A request that cannot be answered: a status and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        """Refuse with a status of HTTP."""
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class Asked:
    """A request taken apart."""

    images: list[bytes]
    names: list[str]
    question: Question


async def read_request(request: Request, most_images: int) -> Asked:
    """Images and question of a request.

    Raises:
        RefusedError: it is no form and no JSON, has no image or too many, or an option makes no sense.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == FORM:
        images, names, options = await _from_form(request, most_images)
    elif kind == "application/json":
        images, names, options = _from_json(await request.body())
    else:
        found = f"the content type is {kind!r}" if kind else "the request has no content type"
        raise RefusedError(400, f"{found}: send {FORM} with files, or application/json")
    if not images:
        raise RefusedError(
            400, f"there is no image in the request: send a form with a file 'images', or {EXAMPLE}"
        )
    if len(images) > most_images:
        raise RefusedError(
            413, f"{len(images)} images are too many for one request: send at most {most_images}"
        )
    return Asked(images, names, _question(options))


async def _from_form(request: Request, most_images: int) -> tuple[list[bytes], list[str], dict[str, Any]]:
    """Files and fields of a form."""
    try:
        form: FormData = await request.form(max_files=most_images + 1, max_fields=1000)
    except (MultiPartException, HTTPException, ValueError, KeyError) as error:
        reason = getattr(error, "detail", None) or getattr(error, "message", None) or str(error)
        if "Too many files" in str(reason):
            raise RefusedError(413, f"too many images in one request: send at most {most_images}") from error
        raise RefusedError(400, f"the form cannot be read ({reason}): send {FORM} as curl -F does") from error
    try:
        return await _taken_apart(form)
    finally:
        await form.close()


async def _taken_apart(form: FormData) -> tuple[list[bytes], list[str], dict[str, Any]]:
    """Files with their names, and the other fields."""
    images: list[bytes] = []
    names: list[str] = []
    options: dict[str, Any] = {}
    for key, value in form.multi_items():
        _known(key)
        if isinstance(value, UploadFile):
            images.append(await value.read())
            names.append(_writable(value.filename or f"image {len(names)}"))
        elif key in ("image", "images"):
            raise RefusedError(400, "images must be files: send them as curl -F images=@photo.jpg does")
        elif key == "classes":
            given = [name.strip() for name in value.split(",")]
            options.setdefault("classes", []).extend(name for name in given if name)
        else:
            options[key] = _number(value) if key in ("top", "unknown") else value
    return images, names, options


def _from_json(body: bytes) -> tuple[list[bytes], list[str], dict[str, Any]]:
    """Images in base64 and options of a JSON object."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RefusedError(400, f"the body is no JSON ({type(error).__name__}): send {EXAMPLE}") from error
    if not isinstance(content, dict):
        raise RefusedError(400, f"the body is no JSON object: send {EXAMPLE}")
    for key in content:
        _known(key)
    given = content.pop("images", [])
    if not isinstance(given, list):
        raise RefusedError(400, f"images is no list: send {EXAMPLE}")
    images, names = [], []
    for index, one in enumerate(given):
        name, data = f"image {index}", one
        if isinstance(one, dict):
            name, data = one.get("name", name), one.get("data")
        if not isinstance(name, str) or not isinstance(data, str):
            raise RefusedError(
                400, f'image {index} is neither base64 nor {{"name": ..., "data": base64}}: send {EXAMPLE}'
            )
        try:
            images.append(
                base64.b64decode(data.partition(",")[2] if data.startswith("data:") else data, validate=True)
            )
        except (binascii.Error, ValueError) as error:
            raise RefusedError(
                400, f"{_writable(name)} is no base64 ({error}): encode the file's bytes"
            ) from error
        names.append(_writable(name))
    return images, names, content


def _writable(name: str) -> str:
    """The name of an image as an answer can repeat it: not endless, halves of characters spelled out."""
    return name[:LONGEST_NAME].encode("utf-8", "backslashreplace").decode()


def _known(key: str) -> str:
    """A field that exists."""
    if key not in FIELDS and key != "image":
        raise RefusedError(400, f"there is no field {key!r:.80}: a request may have {', '.join(FIELDS)}")
    return key


def _number(text: str) -> int | float | str:
    """A number of a form, or the text as it is, which is refused later."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def _question(options: dict[str, Any]) -> Question:
    """Options of any types as a question, or what is wrong with them."""
    classes, template = options.get("classes"), options.get("template", DEFAULT_TEMPLATE)
    top, unknown = options.get("top", 1), options.get("unknown")
    if classes is not None and not _is_names(classes):
        raise RefusedError(400, f"classes is {classes!r:.80}: give a list of names, such as ['crow', 'swan']")
    if not isinstance(template, str):
        raise RefusedError(400, f"template is {template!r:.80}: give a text with {{}} for the class name")
    if isinstance(top, bool) or not isinstance(top, int):
        raise RefusedError(400, f"top is {top!r:.80}: give a whole number of at least 1")
    if unknown is not None and (isinstance(unknown, bool) or not isinstance(unknown, int | float)):
        raise RefusedError(400, f"unknown is {unknown!r:.80}: give a share in (0, 1), such as 0.05")
    return Question(None if classes is None else tuple(classes), template, top, unknown)


def _is_names(classes: object) -> bool:
    """Whether something is a list of texts."""
    return (
        isinstance(classes, Sequence)
        and not isinstance(classes, str)
        and all(isinstance(n, str) for n in classes)
    )
