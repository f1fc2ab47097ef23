"""The page of `dpw play`: a desk in the browser, by gradio; nothing is loaded from elsewhere."""

import io
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from PIL import Image

from dpw.analysis.explained import draw_block, draw_explanation
from dpw.errors import DpwError
from dpw.serving import play_html as html
from dpw.serving.desk import Desk
from dpw.serving.play_teach import add_forgetting, add_teaching

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # read when gradio is imported

import gradio as gr

CSS = """
.dpw-cards { display: flex; flex-wrap: wrap; gap: .8rem; }
.dpw-card {
  display: flex; gap: .8rem; flex: 1 1 18rem; min-width: 0; padding: .7rem;
  border: 1px solid var(--border-color-primary); border-radius: 8px;
}
.dpw-card img { width: 112px; height: 112px; object-fit: contain; flex: none; }
.dpw-card div { min-width: 0; overflow-wrap: anywhere; }
.dpw-card p { margin: .15rem 0; }
.dpw-card ul { margin: .2rem 0 .2rem 1.1rem; list-style: disc; }
.dpw-class { font-size: 1.25rem; font-weight: 600; }
.dpw-name, .dpw-plain { opacity: .8; }
.dpw-bad { color: #b3261e; font-weight: 600; }
.dark .dpw-bad { color: #ff8a80; }
meter, progress { width: 100%; height: .8rem; }
td meter { width: min(8rem, 18vw); }
.gradio-container {
  --font: system-ui, sans-serif; --font-mono: ui-monospace, monospace; font-family: var(--font);
}
.gradio-container { width: 100%; max-width: 70rem !important; margin: 0 auto; box-sizing: border-box; }
.dpw-table { overflow-x: auto; }
.gradio-container .dpw-table table, .gradio-container .dpw-table :is(tr, th, td) { border: none; }
.gradio-container .dpw-table table { width: auto; }
.gradio-container th, .gradio-container td {
  text-align: left; padding: .2rem .8rem .2rem 0; vertical-align: top;
}
"""


def names_of(text: str) -> list[str] | None:
    """Classes that were typed, or None for all learned ones."""
    return [name.strip() for name in text.split(",") if name.strip()] or None


def in_a_sentence(handler: Callable[..., Any]) -> Callable[..., Any]:
    """A handler whose refusals reach the page as one sentence."""

    @wraps(handler)
    def guarded(*given: Any) -> Any:
        """Carry it out."""
        try:
            return handler(*given)
        except DpwError as error:
            raise gr.Error(str(error), print_exception=False) from error

    return guarded


def build(desk: Desk) -> Any:
    """The whole page over a desk."""
    with gr.Blocks(title="dpw play", analytics_enabled=False, delete_cache=(600, 3600)) as page:
        gr.Markdown(f"# dpw play\n{'Showing' if desk.read_only else 'Playing with'} `{desk.folder.name}`.")
        with gr.Tab("Ask"):
            _add_asking(desk)
        with gr.Tab("Tasks"):
            shown = gr.HTML(elem_id="tasks")
            changed: list[Any] = [shown]
            if not desk.read_only:
                changed.append(add_forgetting(desk, shown, in_a_sentence))
        if not desk.read_only:
            with gr.Tab("Teach"):
                add_teaching(desk, changed)

        def refresh() -> list[Any]:
            """What the model knows now."""
            tasks = desk.tasks()
            return [html.tasks_html(tasks), gr.Dropdown(choices=[one["name"] for one in tasks])][
                : len(changed)
            ]

        page.load(refresh, None, changed)
        gr.Timer(5).tick(refresh, None, changed, show_progress="hidden")
    return page


def _add_asking(desk: Desk) -> None:
    """Images in, answers out, and why."""
    files = gr.File(
        label="Drop images here", file_count="multiple", file_types=["image"], elem_id="files", height=200
    )
    with gr.Row():
        classes = gr.Textbox(
            label="Other classes, separated by commas", placeholder="all learned classes", elem_id="classes"
        )
        unknown = gr.Slider(
            0, 0.5, 0, step=0.01, label="Say “unknown” below this typicality (0: never)", elem_id="unknown"
        )
    ask = gr.Button("Ask", variant="primary", elem_id="ask")
    answers = gr.HTML(elem_id="answers")
    with gr.Accordion("Why? What every token took, layer by layer", open=True):
        which = gr.Dropdown([], label="Image", elem_id="which")
        layer = gr.Slider(0, 1, 0, step=1, label="Layer (0: all of them)", elem_id="layer")
        picture = gr.Image(
            label="What every token took",
            show_label=False,
            elem_id="why",
            interactive=False,
            type="pil",
            buttons=[],
        )
        likely = gr.HTML(elem_id="likelihoods")
    kept = gr.State()

    @in_a_sentence
    def answer(paths: list[str] | None, typed: str, level: float) -> tuple[Any, Any]:
        """Ask about all files."""
        if not paths:
            return html.sentence("drop one or more images first"), gr.Dropdown([], value=None)
        found = desk.ask(paths, names_of(typed), level or None)
        good = [(Path(path).name, row) for row, path in enumerate(paths) if found[row].model.error is None]
        return html.answers_html(paths, found), gr.Dropdown(good, value=good[0][1] if good else None)

    @in_a_sentence
    def why(paths: list[str] | None, row: int | None, typed: str) -> tuple[Any, ...]:
        """Explain the chosen image."""
        if not paths or row is None or not 0 <= row < len(paths):
            return None, gr.Slider(value=0), None, ""
        found = desk.explain(paths[row], names_of(typed))
        blocks = 0 if found.tokens is None else len(found.tokens.prefix)
        return (
            found,
            gr.Slider(maximum=max(blocks, 1), value=0),
            _drawn(found, 0),
            html.likelihoods_html(found.tasks),
        )

    shown, reasons = [answers, which], [kept, layer, picture, likely]
    asked = gr.on(
        [ask.click, classes.submit, files.upload, files.clear], answer, [files, classes, unknown], shown
    )
    asked.then(why, [files, which, classes], reasons, show_progress="hidden")
    which.input(why, [files, which, classes], reasons, show_progress="hidden")
    layer.release(_drawn, [kept, layer], picture, show_progress="hidden")


def _drawn(found: Any, layer: int) -> Image.Image | None:
    """The picture of an explanation, of all layers or of one."""
    if found is None:
        return None
    blocks = 0 if found.tokens is None else len(found.tokens.prefix)
    figure = draw_block(found, int(layer) - 1) if 0 < layer <= blocks else draw_explanation(found)
    target = io.BytesIO()
    figure.savefig(target, format="png", dpi=130, facecolor="white")
    return Image.open(target)


def open_page(page: gr.Blocks, *, host: str, port: int, browser: bool) -> str:
    """Put the page at an address, without waiting; gives the address."""
    system, typewriter = ("system-ui", "sans-serif"), ("ui-monospace", "monospace")
    theme = gr.themes.Default(
        font=[gr.themes.Font(name) for name in system],
        font_mono=[gr.themes.Font(name) for name in typewriter],
    )
    page.queue(default_concurrency_limit=4)
    _, local, _ = page.launch(
        server_name=host,
        server_port=port,
        inbrowser=browser,
        share=False,
        quiet=True,
        prevent_thread_lock=True,
        show_error=True,
        ssr_mode=False,
        max_file_size="64mb",
        footer_links=[],
        theme=theme,
        css=CSS,
    )
    return str(local)
