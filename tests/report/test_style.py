"""Colours are kept and tell lines apart; names are drawn as they are written."""

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from dpw.report import style

NAMES = st.lists(st.text("abcdefgh-", min_size=1, max_size=12), min_size=1, max_size=20, unique=True)


@given(NAMES)
def test_every_name_gets_a_look_and_the_same_one_again(names):
    given_looks = style.looks(names)
    assert list(given_looks) == names
    assert given_looks == style.looks(names)


def test_up_to_seven_lines_have_seven_colours():
    names = ["dpw", "diki", "x", "y", "zero-shot", "z", "finetune"]
    colours = [look.colour for look in style.looks(names).values()]
    assert len(set(colours)) == len(names)
    assert colours[0] == style.METHOD_COLOURS["dpw"]


@given(NAMES)
def test_two_lines_never_share_colour_and_marker(names):
    pairs = [(look.colour, look.marker, look.dash) for look in style.looks(names).values()]
    assert len(set(pairs)) == len(pairs)


def test_an_inline_drawing_has_ids_of_its_own_and_the_ink_of_the_page(tmp_path):
    with style.style():
        figure, (axis,) = style.new_figure(3, 2)
        axis.plot([0, 1], [0, 1])
    one, two = (style.save_picture(figure, tmp_path, name, "t", "c") for name in ("one", "two"))
    inline = style.inline_svg(one)
    assert style.INK not in inline
    assert "currentColor" in inline
    assert 'id="one-' in inline
    assert "one-" not in style.inline_svg(two)
    assert (tmp_path / "one.png").read_bytes()[:4] == b"\x89PNG"


def test_names_of_classes_are_drawn_as_they_are_written(tmp_path, recwarn):
    with style.style():
        figure, (axes,) = style.new_figure(3, 3)
        axes.barh([0, 1, 2], [1, 2, 3])
        axes.set_yticks([0, 1, 2], ["a\x1b[31mred", "\u65e5\u672c", "cost $x^ and $"])
    picture = style.save_picture(figure, tmp_path, "names", "", "")
    ElementTree.fromstring(picture.svg)  # a control character is no XML
    for name in (r"a\x1b[31mred", "\u65e5\u672c", "cost $x^ and $"):
        assert f">{name}<" in picture.svg
    assert not recwarn.list, "a letter without a glyph is no warning on somebody's screen"


def test_powers_of_ten_stay_formulas(tmp_path):
    with style.style():
        figure, (axes,) = style.new_figure(3, 3)
        axes.plot([1, 1e5], [1, 2])
        axes.set_xscale("log")
    assert ">$" not in style.save_picture(figure, tmp_path, "powers", "", "").svg
