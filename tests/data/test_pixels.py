"""The pixel cache gives exactly what preprocessing gives, keeps within its bound and survives anything."""

import io
import multiprocessing
import os
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from dpw.clip.preprocessing import Preprocessing
from dpw.data import segments
from dpw.data.pixels import PixelCache, cache_folder, read_images, training_pixels
from dpw.data.task import Split, Task
from dpw.errors import InputError
from tests.helpers.checks import nonempty

TINY = Preprocessing(size=8, crop=(8, 8))
RECORD = 3 * 8 * 8
ROOM = 1_000_000


class CountingSource:
    """Twelve pictures that count how often each is decoded."""

    def __init__(self, count=12):
        self.decoded = [0] * count

    def __len__(self):
        return len(self.decoded)

    def image(self, index):
        self.decoded[index] += 1
        pixels = np.random.default_rng(index).integers(0, 256, (10, 12, 3), dtype=np.uint8)
        return Image.fromarray(pixels)

    def key(self, index):
        return f"picture {index}"

    def where(self, index):
        return f"pictures[{index}]"


def pictures(count=12):
    source = CountingSource(count)
    return source, Split(source, [0] * count)


def expected(split, indices):
    return np.stack([TINY.pixels(split[index].image) for index in indices])


@pytest.mark.parametrize("workers", [1, 3])
def test_pixels_are_those_of_preprocessing_first_and_again(tmp_path, workers):
    _, split = pictures()
    order = [3, 0, 11, 3]
    for _ in range(2):
        with PixelCache(TINY, tmp_path, ROOM, workers=workers) as cache:
            assert np.array_equal(cache.pixels(split, order), expected(split, order))
            assert cache.pixels(split, []).shape == (0, 3, 8, 8)


def test_every_image_is_decoded_once(tmp_path):
    source, split = pictures()
    for _ in range(3):
        PixelCache(TINY, tmp_path, ROOM).pixels(split, range(12))
    assert source.decoded == [1] * 12


def test_without_a_folder_nothing_is_kept():
    source, split = pictures()
    cache = PixelCache(TINY, None)
    for _ in range(2):
        assert np.array_equal(cache.pixels(split, [1, 2]), expected(split, [1, 2]))
    assert source.decoded[1] == 4


def test_another_preprocessing_or_content_has_other_pixels(tmp_path):
    source, split = pictures()
    PixelCache(TINY, tmp_path, ROOM).pixels(split, [0])
    wide = Preprocessing(size=(8, 16), crop=None)
    assert PixelCache(wide, tmp_path, ROOM).pixels(split, [0]).shape == (1, 3, 8, 16)
    source.key = lambda index: f"changed {index}"
    PixelCache(TINY, tmp_path, ROOM).pixels(split, [0])
    assert source.decoded[0] == 3


def files_size(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@given(st.integers(0, 40_000))
@settings(max_examples=30)
def test_the_bound_is_never_passed(tmp_path_factory, max_bytes):
    folder = tmp_path_factory.mktemp("cache")
    _, split = pictures()
    for _ in range(2):
        cache = PixelCache(TINY, folder, max_bytes)
        for index in range(12):
            assert np.array_equal(cache.pixels(split, [index]), expected(split, [index]))
            assert files_size(folder) <= max_bytes
        cache.close()


def test_old_pixels_make_way_for_new_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "RECORDS_IN_SEGMENT", 4)
    limit = 6 * (4 * RECORD + 4 * segments.ENTRY.size)
    _, old = pictures(24)
    PixelCache(TINY, tmp_path, limit).pixels(old, range(24))
    source, new = pictures(4)
    source.key = lambda index: f"new {index}"
    for path in nonempty(tmp_path.rglob("*.pixels")):
        os.utime(path, (1, 1))
    for _ in range(2):
        PixelCache(TINY, tmp_path, limit).pixels(new, range(4))
    assert source.decoded == [1] * 4
    assert files_size(tmp_path) <= limit


def test_what_a_run_uses_itself_is_not_thrown_out(tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "RECORDS_IN_SEGMENT", 2)
    source, split = pictures(12)
    cache = PixelCache(TINY, tmp_path, 4 * (2 * RECORD + 2 * segments.ENTRY.size))
    for _ in range(3):
        cache.pixels(split, range(12))
    assert sum(count == 1 for count in source.decoded) >= 4, (
        "some stay; the cache does not chase its own tail"
    )


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_damage_on_disk_only_costs_time(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("cache")
    _, split = pictures()
    PixelCache(TINY, folder, ROOM).pixels(split, range(12))
    victim = data.draw(st.sampled_from(sorted(path for path in folder.rglob("*") if path.is_file())))
    content = bytearray(victim.read_bytes())
    match data.draw(st.sampled_from(["cut", "flip", "remove"])):
        case "cut":
            victim.write_bytes(content[: data.draw(st.integers(0, len(content)))])
        case "flip":
            content[data.draw(st.integers(0, min(len(content), 12 * RECORD) - 1))] ^= 255
            victim.write_bytes(content)
        case "remove":
            victim.unlink()
    cache = PixelCache(TINY, folder, ROOM)
    for _ in range(2):
        assert np.array_equal(cache.pixels(split, range(12)), expected(split, range(12)))


def feed(folder, seed, failures):
    _, split = pictures(40)
    cache = PixelCache(TINY, folder, ROOM)
    for index in np.random.default_rng(seed).integers(0, 40, 120).tolist():
        if not np.array_equal(cache.pixels(split, [index]), expected(split, [index])):
            failures.put(index)


def test_two_processes_at_once_agree(tmp_path):
    context = multiprocessing.get_context("spawn")
    failures = context.Queue()
    workers = [context.Process(target=feed, args=(tmp_path, seed, failures)) for seed in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert failures.empty()


def test_one_process_sees_what_another_has_kept_meanwhile(tmp_path):
    source, split = pictures()
    first, second = PixelCache(TINY, tmp_path, ROOM), PixelCache(TINY, tmp_path, ROOM)
    first.pixels(split, range(12))
    second.pixels(split, range(12))
    assert source.decoded == [1] * 12


def test_a_full_disk_only_stops_the_keeping(tmp_path, monkeypatch, caplog):
    _, split = pictures()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(segments._Writer, "write", full)
    cache = PixelCache(TINY, tmp_path, ROOM)
    for _ in range(2):
        assert np.array_equal(cache.pixels(split, range(3)), expected(split, range(3)))
    assert caplog.text.count("no longer cached") == 1


def test_a_cache_can_travel_to_another_process(tmp_path):
    cache = pickle.loads(pickle.dumps(PixelCache(TINY, tmp_path, ROOM)))
    _, split = pictures()
    assert np.array_equal(cache.pixels(split, [1]), expected(split, [1]))


def test_closing_gives_reserved_space_back(tmp_path):
    _, split = pictures()
    with PixelCache(TINY, tmp_path, ROOM) as cache:
        cache.pixels(split, range(3))
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.pixels")) == 3 * RECORD


def test_a_damaged_image_is_named(tmp_path):
    (tmp_path / "bad.jpg").write_bytes(b"x")
    split = Split.from_files([tmp_path / "bad.jpg"], [0])
    with pytest.raises(InputError, match=r"bad\.jpg"):
        PixelCache(TINY, tmp_path / "cache", ROOM).pixels(split, [0])


def test_images_of_different_sizes_are_refused():
    with pytest.raises(InputError, match="gives images of different sizes"):
        PixelCache(Preprocessing(size=8, crop=None), None)


@pytest.mark.parametrize("odd", ["file/cache", "x" * 300, "nul\0"])
def test_a_folder_that_cannot_be_used_is_gone_around_with_a_warning(tmp_path, caplog, odd):
    (tmp_path / "file").write_text("x")
    _, split = pictures()
    cache = PixelCache(TINY, tmp_path / odd)
    assert np.array_equal(cache.pixels(split, range(3)), expected(split, range(3)))
    assert "DPW_CACHE" in caplog.text


def test_a_user_without_a_home_folder_is_warned(monkeypatch, caplog):
    def homeless():
        raise RuntimeError("no home")

    for name in ("DPW_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("dpw.data.pixels.Path.home", homeless)
    monkeypatch.setattr("dpw.data.segments._warned", set())
    assert cache_folder() is None
    assert "DPW_CACHE" in caplog.text


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_odd_things_in_the_folder_are_passed_over(tmp_path):
    _, split = pictures()
    kind = tmp_path / f"pixels-{TINY.pixel_fingerprint}"
    kind.mkdir()
    os.mkfifo(kind / "pipe.index")
    (kind / "folder.index").mkdir()
    (kind / "noise.index").write_bytes(bytes(range(256)) * 40)
    (kind / "noise.pixels").mkdir()
    cache = PixelCache(TINY, tmp_path)
    for _ in range(2):
        assert np.array_equal(cache.pixels(split, range(3)), expected(split, range(3)))


def test_a_truncated_picture_costs_only_its_own_answer(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (60, 60, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.png")
    content = (tmp_path / "a.png").read_bytes()
    cut = Image.open(io.BytesIO(content[: len(content) // 2]))
    _, errors = read_images(PixelCache(TINY, None), [cut, tmp_path / "a.png", Image.fromarray(noise)])
    assert list(errors) == [0]
    _, errors = read_images(PixelCache(TINY, None), [cut, 7])
    assert list(errors) == [0, 1]


def task(protocol):
    _, split = pictures()
    return Task("toy", ("a",), ("{}",), split, protocol=protocol)


def test_protocol_coop_trains_on_the_images_of_test_time():
    cache = PixelCache(TINY, None)
    assert np.array_equal(
        training_pixels(cache, task("coop"), [4, 2], seed=0, epoch=0), expected(task("coop").train, [4, 2])
    )


def test_protocol_zscl_trains_on_random_crops_that_change_with_the_epoch():
    cache = PixelCache(TINY, None)
    first, again, later = (
        training_pixels(cache, task("zscl"), [4, 2], seed=0, epoch=epoch) for epoch in (0, 0, 1)
    )
    assert first.shape == (2, 3, 8, 8)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, later)


def test_given_files_go_through_the_cache_and_images_do_not(tmp_path, monkeypatch):
    path = tmp_path / "red.png"
    Image.new("RGB", (9, 9), "red").save(path)
    cache = PixelCache(TINY, tmp_path / "cache", ROOM)
    first, errors = read_images(cache, [path, Image.new("RGB", (9, 9), "blue"), tmp_path / "absent.png"])
    assert list(errors) == [2]
    assert "absent.png does not exist" in str(errors[2])
    monkeypatch.setattr("dpw.data.split.open_image", lambda *_: pytest.fail("it was decoded again"))
    again, _ = read_images(cache, [str(path)])
    assert np.array_equal(first[0], again[0])
    assert first[:2, :, 4, 4].tolist() == [[255, 0, 0], [0, 0, 255]]


def test_an_unreadable_image_costs_only_itself(tmp_path):
    source, split = pictures()
    decode = source.image

    def image(index):
        if index == 1:
            raise InputError("the second is damaged")
        return decode(index)

    source.image = image
    cache = PixelCache(TINY, tmp_path, ROOM)
    for _ in range(2):
        pixels, errors = cache.readable_pixels(split, range(3))
        assert {row: str(error) for row, error in errors.items()} == {1: "the second is damaged"}
        assert np.array_equal(pixels[[0, 2]], expected(split, [0, 2]))
    with pytest.raises(InputError, match="the second is damaged"):
        cache.pixels(split, range(3))


def test_images_in_memory_are_decoded_in_threads_and_one_object_by_one_thread_at_a_time(tmp_path):
    for shade in range(6):
        Image.new("RGB", (40, 30), (40 * shade, 9, 9)).save(tmp_path / f"{shade}.png")
    paths = [tmp_path / f"{shade}.png" for shade in range(6)]
    opened = [Image.open(path) for path in paths]
    given = [*opened, *opened, paths[0].read_bytes(), paths[0]]
    with PixelCache(TINY, None, workers=1) as alone, PixelCache(TINY, None, workers=4) as together:
        expected, _ = read_images(alone, [*paths, *paths, paths[0], paths[0]])
        found, errors = read_images(together, given)
    assert not errors
    assert (found == expected).all()


def test_files_of_others_in_the_cache_folder_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "RECORDS_IN_SEGMENT", 2)
    theirs = [tmp_path / "photos" / "holiday.pixels", tmp_path / "pixels-mine" / f"{'0' * 32}.pixels"]
    for path in theirs:
        path.parent.mkdir()
        path.write_bytes(bytes(10**6))
        os.utime(path, (1, 1))
    _, split = pictures(12)
    PixelCache(TINY, tmp_path, 4 * (2 * RECORD + 2 * segments.ENTRY.size)).pixels(split, range(12))
    assert all(path.stat().st_size == 10**6 for path in theirs)
