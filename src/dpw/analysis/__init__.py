"""The paper's analyses from a finished run: small functions that give data, and others that draw it.

subject = open_run("runs/mini/dpw-seed0")
data = weight_distribution(subject)
draw_weight_distribution(data).savefig("weights.png")
"""

from dpw.analysis.cls_scores import cls_scores
from dpw.analysis.cutoffs import cutoff_comparison
from dpw.analysis.drawings import (
    draw_cls_scores,
    draw_component_times,
    draw_cutoffs,
    draw_output_cosines,
    draw_prefix_lengths,
    draw_query_similarity,
    draw_score_maps,
    draw_token_plane,
    draw_weight_distribution,
)
from dpw.analysis.explain import explain
from dpw.analysis.explained import draw_explanation
from dpw.analysis.make import FIGURES, make_figures
from dpw.analysis.prefix_lengths import accuracy_by_prefix_length
from dpw.analysis.queries import query_similarity, token_plane
from dpw.analysis.score_maps import score_maps
from dpw.analysis.subject import Subject, open_run
from dpw.analysis.timing import component_times
from dpw.analysis.token_weights import output_cosines, weight_distribution

__all__ = [
    "FIGURES",
    "Subject",
    "accuracy_by_prefix_length",
    "cls_scores",
    "component_times",
    "cutoff_comparison",
    "draw_cls_scores",
    "draw_component_times",
    "draw_cutoffs",
    "draw_explanation",
    "draw_output_cosines",
    "draw_prefix_lengths",
    "draw_query_similarity",
    "draw_score_maps",
    "draw_token_plane",
    "draw_weight_distribution",
    "explain",
    "make_figures",
    "open_run",
    "output_cosines",
    "query_similarity",
    "score_maps",
    "token_plane",
    "weight_distribution",
]
