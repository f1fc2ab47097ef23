"""All figures as files, and mistakes named."""

import json

import pytest

from dpw import analysis
from dpw.analysis.subject import open_prefixes
from dpw.errors import InputError


def test_all_figures_are_written_as_png_svg_and_json(dpw_run, diki_run, tmp_path):
    told = []
    pictures = analysis.make_figures(dpw_run, tmp_path, beside=[diki_run], images=4, on_message=told.append)
    names = [name for name in analysis.FIGURES if name != "token-plane-umap"]
    assert told == names == [picture.name for picture in pictures]
    for name in names:
        assert (tmp_path / f"{name}.png").stat().st_size > 1000
        assert "<svg" in (tmp_path / f"{name}.svg").read_text()
        assert json.loads((tmp_path / f"{name}.json").read_text())


def test_mistakes_are_named(dpw_run, diki_run, tmp_path):
    with pytest.raises(InputError, match="no figure is called 'hist'"):
        analysis.make_figures(dpw_run, tmp_path, only=["hist"])
    with pytest.raises(InputError, match="is a run of 'diki'"):
        analysis.make_figures(diki_run, tmp_path)
    with pytest.raises(InputError, match="task 'cars' is not learned"):
        analysis.make_figures(dpw_run, tmp_path, tasks=("birds", "cars"))
    with pytest.raises(InputError, match="is a run of 'dpw', but only 'diki'"):
        open_prefixes(dpw_run, analysis.open_run(dpw_run))
