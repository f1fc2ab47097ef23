"""How class names are spelled in prompts."""

from dpw.data.prompts import readable, spell


def test_a_prompt_has_the_name_in_its_place_and_no_underscores():
    assert (
        spell("a photo of a {}, a type_of bird.", "black_swan") == "a photo of a black swan, a type of bird."
    )


def test_names_that_read_alike_are_equal_and_case_matters():
    assert readable("sea_horse") == readable("sea horse")
    assert readable("forest") != readable("Forest")
    assert readable("Caf\u00e9") == readable("Cafe\u0301") != readable("Cafe")
