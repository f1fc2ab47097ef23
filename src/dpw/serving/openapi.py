"""The description of `POST /predict`, which takes a form or JSON and is read by hand."""

from typing import Any

OPTIONS: dict[str, Any] = {
    "classes": {
        "type": "array",
        "items": {"type": "string"},
        "description": "Choose between these, learned or not; all learned ones by default. In a form: A,B.",
    },
    "template": {
        "type": "string",
        "default": "a photo of a {}.",
        "description": "Prompt for classes, with {} for the name.",
    },
    "top": {"type": "integer", "minimum": 1, "default": 1, "description": "How many classes to name."},
    "unknown": {
        "type": "number",
        "exclusiveMinimum": 0,
        "exclusiveMaximum": 1,
        "description": "Say 'unknown' of images less typical than all but this share of a task's own.",
    },
}

ONE_IMAGE = {
    "oneOf": [
        {
            "type": "string",
            "format": "byte",
            "description": "The file's bytes in base64, or a data: address.",
        },
        {
            "type": "object",
            "properties": {"name": {"type": "string"}, "data": {"type": "string", "format": "byte"}},
            "required": ["data"],
        },
    ]
}

ANSWER = {
    "type": "object",
    "properties": {
        "image": {"type": "string", "description": "The file's name, or image N."},
        "class": {"type": ["string", "null"], "description": "The most likely class, or 'unknown'."},
        "probability": {"type": ["number", "null"]},
        "task": {"type": ["string", "null"], "description": "The learned task the image belongs to."},
        "confidence": {"type": ["number", "null"], "description": "How sure the model is of the task."},
        "error": {"type": ["string", "null"], "description": "Why the image could not be read."},
        "alternatives": {"type": "array", "description": "The next classes with their probabilities."},
        "typicality": {"type": ["number", "null"], "description": "The less, the stranger the image."},
    },
}

REFUSED = {"application/json": {"schema": {"type": "object", "properties": {"error": {"type": "string"}}}}}


def _body(image: dict[str, Any]) -> dict[str, Any]:
    """A request's schema with images of one kind."""
    images = {"type": "array", "items": image, "description": "One or many images."}
    return {"schema": {"type": "object", "properties": {"images": images, **OPTIONS}, "required": ["images"]}}


PREDICT: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": _body({"type": "string", "format": "binary"}),
            "application/json": _body(ONE_IMAGE),
        },
    },
    "responses": {
        "200": {
            "description": "Answers in the order of the images; 'model' names the state that gave them.",
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "properties": {
                            "model": {"type": "string"},
                            "predictions": {"type": "array", "items": ANSWER},
                        },
                    }
                }
            },
        },
        "400": {"description": "The request or all of its images cannot be used.", "content": REFUSED},
        "401": {"description": "The token is missing or wrong.", "content": REFUSED},
        "413": {"description": "Too many bytes or images at once.", "content": REFUSED},
        "429": {"description": "Too many images wait; see Retry-After.", "content": REFUSED},
    },
}
