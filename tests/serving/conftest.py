"""A toy model that is served inside the test's own process."""

import io
import json
import shutil
from contextlib import contextmanager

import pytest
from PIL import Image
from starlette.testclient import TestClient

from dpw.serving.app import Limits, make_app
from dpw.serving.served import load_served
from dpw.serving.watching import ModelWatcher


@pytest.fixture
def folder(saved, tmp_path):
    """A copy of the toy model that a test may teach and damage."""
    return shutil.copytree(saved[1], tmp_path / "model")


@pytest.fixture
def serving(folder):
    """`serving(limits, token)` gives a client of the served copy, and its watcher, which looks when told."""

    @contextmanager
    def start(limits=None, token=None):
        watcher = ModelWatcher(folder, lambda: load_served(folder), seconds=3600)
        app = make_app(watcher, limits or Limits(wait=0.002), token=token)
        with TestClient(app) as client:
            client.watcher = watcher
            yield client

    return start


@pytest.fixture(scope="session")
def photos(toy):
    """Bytes of test images by their file's name."""
    return {
        f"{path.parent.name}-{path.name}": path.read_bytes()
        for path in sorted((toy / "data").glob("*/test/*/*.png"))
    }


def as_form(photos):
    """Images as the files of a form."""
    return [("images", (name, content, "image/png")) for name, content in photos.items()]


def png(size=(20, 18), colour="red") -> bytes:
    """A small image."""
    target = io.BytesIO()
    Image.new("RGB", size, colour).save(target, "PNG")
    return target.getvalue()


def told(predictions):
    """Predictions of the library as a server tells them, names apart."""
    found = json.loads(json.dumps([one.as_json() for one in predictions]))
    return [one | {"image": ""} for one in found]
