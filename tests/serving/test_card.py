"""The model card: fields the hub reads, and names that cannot act in it."""

import yaml

from dpw.serving.card import model_card

CONTENT = {
    "dpw": "0.1.0",
    "method": {"name": "dpw"},
    "backbone": {"reference": "some-one/clip", "fingerprint": "abc"},
    "tasks": [{"name": "a|b", "classes": ["<script>", *map(str, range(20))], "protocol": "coop"}],
}
RESULTS = {
    "benchmark": "mini",
    "setting": "task-incremental",
    "protocol": "coop",
    "seed": 1,
    "metrics": {"transfer": None, "avg": 66.25, "last": 74.4},
}


def test_the_hub_can_read_its_fields():
    card = model_card("me/birds", CONTENT, "apache-2.0", None)
    fields = yaml.safe_load(card.split("---")[1])
    assert fields["license"] == "apache-2.0"
    assert fields["base_model"] == "some-one/clip"
    assert fields["library_name"] == "dpw"
    assert "None were measured" in card


def test_figures_carry_their_protocol():
    card = model_card("me/birds", CONTENT, None, RESULTS)
    assert "On `mini`, task-incremental, protocol `coop`, seed 1: avg 66.2 %, last 74.4 %." in card
    assert "license" not in yaml.safe_load(card.split("---")[1])


def test_names_do_not_act():
    card = model_card("me/birds", CONTENT, None, None)
    assert "| a/b | 21 |" in card
    assert "<script>" not in card
    assert "and 9 more" in card
