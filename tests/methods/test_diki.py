"""DIKI: its size, and the images it sees."""

from dpw.engine.feeding import epoch_batches
from dpw.methods import configure, create
from tests.helpers.tiny_clip import vit_b16


def test_diki_has_163840_parameters_a_task_on_vit_b16():
    method = create("diki", vit_b16())
    towers = [method.new_tower(tower) for tower in ("image", "text")]
    assert sum(tensor.numel() for tower in towers for tensor in tower.parameters()) == 163_840


def test_its_loader_drops_nothing_and_its_gaussian_sees_all_images():
    """160 images, as 16-shot EuroSAT has: two batches an epoch, in the authors' code as well."""
    for preset in ("default", "official"):
        config = configure("diki", preset)
        assert not config.training.drop_last
        assert not config.fit_drop_last
        batches = epoch_batches(160, config.training.batch_size, config.training.drop_last, "key")
        assert [len(batch) for batch in batches] == [128, 32]
