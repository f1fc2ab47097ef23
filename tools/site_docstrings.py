"""How docstrings are read for the site.

`Example:` is a section, arguments may be explained together, and equations become formulas.
"""

import re
from typing import Any

from griffe import Extension, Object

TOGETHER = re.compile(r"^( +)(\w+(?:, \w+)+): (.*(?:\n\1 +.*)*)$", flags=re.MULTILINE)

# What a docstring of dpw.functional writes for a terminal, and what it is on the site.
FORMULAS = {
    "S = X W^G + B^G": r"$S = X W^G + B^G$",
    "`Σ_k σ(s)`": r"$\sum_k \sigma(s_k)$",
    "1 − σ(log φ(s_cls; μ, σ²))": r"$1 - \sigma(\log \varphi(s_{\mathrm{cls}};\, \mu, \sigma^2))$",
    "Δ = max(0, Σ_k σ(s) − 1)": r"$\Delta = \max(0,\ \sum_k \sigma(s_k) - 1)$",
    "O_prefix = G̃ P_V": r"$O^{\mathrm{prefix}} = \tilde{G} P_V$",
    "E(X) = scale · (X D U + b)": r"$E(X) = \mathrm{scale} \cdot (X D U + b)$",
    "O_R = O_prefix + Δ ⊙ E(X)": r"$O^R = O^{\mathrm{prefix}} + \Delta \odot E(X)$",
    "‖p_ij‖": r"$\lVert p_{ij} \rVert$",
    "c_V, or L·c_V": r"$c_V$, or $L \cdot c_V$",
    "log N(f; μ, Σ)": r"$\log \mathcal{N}(f;\, \mu, \Sigma)$",
    "σ(ℓ/dim − 1)": r"$\sigma(\ell / \mathrm{dim} - 1)$",
    "‖Σ v‖² − Σ ‖v‖²": r"$\lVert \sum v \rVert^2 - \sum \lVert v \rVert^2$",
    "½(inter_image + inter_text) / (intra + α/C)": (
        r"$\frac{1}{2} (\mathrm{inter}_{\mathrm{image}} + \mathrm{inter}_{\mathrm{text}})"
        r" / (\mathrm{intra} + \alpha / C)$"
    ),
}


def adapted(text: str) -> str:
    """A docstring in the spelling that the reader of docstrings expects.

    Example:
        >>> print(adapted("Args:\\n    low, high: bounds."))
        Args:
            low: bounds.
            high: bounds.
    """
    for written, drawn in FORMULAS.items():
        text = text.replace(written, drawn)
    apart = TOGETHER.sub(
        lambda found: "\n".join(f"{found[1]}{one}: {found[3]}" for one in found[2].split(", ")), text
    )
    return re.sub(r"^( *)Example:$", r"\1Examples:", apart, flags=re.MULTILINE)


class Docstrings(Extension):
    """Adapts every docstring before it is read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called for every function, class and module."""
        if obj.docstring is not None:
            obj.docstring.value = adapted(obj.docstring.value)
