"""What MkDocs does not do by itself: formulas without a script, notebooks, and pages from outside docs/.

Formulas are written as `$W^G$` or `$$...$$` and become MathML while the site is built, which every current
browser draws by itself. Notebooks in docs/notebooks become pages with their outputs.
"""

import html
import json
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
OUTSIDE = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
# What a docstring calls W^G, s_cls or h', outside code and formulas.
SYMBOL = re.compile(
    r"<(pre|code|math|nav)\b.*?</\1>|<[^>]*>|(?<![\w'])(?:[A-Z][_^][A-Z]|s_cls|h')(?!\w)", flags=re.DOTALL
)
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', flags=re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put all pages of docs/methods where the navigation names the folder."""
    config.nav = [_with_methods(part, Path(config.docs_dir)) for part in config.nav or []]
    return config


def _with_methods(part: Any, docs: Path) -> Any:
    """A part of the navigation in which a folder is all its pages, the index first."""
    if isinstance(part, list):
        return [_with_methods(one, docs) for one in part]
    if isinstance(part, dict):
        return {title: _with_methods(inside, docs) for title, inside in part.items()}
    if part.endswith("/"):
        pages = sorted((docs / part).glob("*.md"), key=lambda path: (path.stem != "index", path.stem))
        return [f"{part}{page.name}" for page in pages]
    return part


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each notebook and for each of the files beside the README."""
    for name in OUTSIDE:
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, name.lower(), content=text))
    for notebook in sorted((Path(config.docs_dir) / "notebooks").glob("*.ipynb")):
        page = notebook_page(json.loads(notebook.read_text(encoding="utf-8")), notebook.name)
        files.append(File.generated(config, f"notebooks/{notebook.stem}.md", content=page))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links to files beside the README lead to their pages."""
    for name in OUTSIDE:
        markdown = markdown.replace(f"](../{name})", f"]({name.lower()})")
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """Turn formulas, and the paper's symbols in plain sentences, into MathML."""
    drawn = FORMULA.sub(lambda found: formula(found[3], block=found[2] == "["), html)
    return SYMBOL.sub(lambda found: found[0] if found[0].startswith("<") else symbol(found[0]), drawn)


def symbol(name: str) -> str:
    """A symbol of the paper, written as in a docstring, as MathML.

    Example:
        >>> symbol("s_cls") == formula(r"s_{\\mathrm{cls}}")
        True
    """
    return formula(name.replace("cls", r"{\mathrm{cls}}"))


def formula(latex: str, block: bool = False) -> str:
    """A formula as MathML.

    Example:
        >>> formula("W^G").startswith("<math")
        True
    """
    drawn = str(convert(html.unescape(latex).strip(), display="block" if block else "inline"))
    return f'<div class="formula">{drawn}</div>' if block else drawn


def notebook_page(notebook: dict[str, Any], name: str) -> str:
    """A notebook as Markdown, with text and pictures that its cells gave."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        else:
            parts += [f"```python\n{source}\n```", *map(_output, together(cell["outputs"]))]
    parts.insert(1, f"[Download this notebook]({name})")
    return "\n\n".join(part for part in parts if part) + "\n"


def together(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Outputs of a cell in which text that was printed piece by piece is one.

    Example:
        >>> together([{"name": "stdout", "text": ["a\\n"]}, {"name": "stdout", "text": ["b"]}])
        [{'name': 'stdout', 'text': ['a\\n', 'b']}]
    """
    joined: list[dict[str, Any]] = []
    for output in outputs:
        if "text" in output and joined and joined[-1].get("name") == output["name"]:
            joined[-1] = {**joined[-1], "text": [*joined[-1]["text"], *output["text"]]}
        else:
            joined.append(output)
    return joined


def _output(output: dict[str, Any]) -> str:
    """What a cell gave: a picture or text."""
    data = output.get("data", {})
    for kind in ("image/png", "image/jpeg"):
        if kind in data:
            pixels = "".join(data[kind]).replace("\n", "")
            return f'<img alt="what the cell drew" src="data:{kind};base64,{pixels}">'
    text = "".join(output.get("text") or data.get("text/plain") or "").rstrip()
    return f'<div class="output" markdown>\n\n```text\n{text}\n```\n\n</div>' if text else ""
