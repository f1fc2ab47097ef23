"""The parts of the page that change a model: teaching from dropped images, forgetting after a question."""

from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr

from dpw.errors import DpwError
from dpw.serving import play_html as html
from dpw.serving.desk import Desk

Guard = Callable[[Callable[..., Any]], Callable[..., Any]]


def add_forgetting(desk: Desk, shown: Any, guard: Guard) -> Any:
    """A choice of tasks and a question before one is forgotten; gives the choice."""
    which = gr.Dropdown([], label="Task to forget", elem_id="forget-which")
    ask = gr.Button("Forget this task …", elem_id="forget")
    with gr.Group(visible=False, elem_id="forget-question") as question:
        words = gr.Markdown()
        with gr.Row():
            yes = gr.Button("Yes, forget it", variant="stop", elem_id="forget-yes")
            no = gr.Button("No, keep it", elem_id="forget-no")
    outcome = gr.HTML(elem_id="forget-outcome")

    def wonder(name: str | None) -> tuple[Any, Any, Any]:
        """Ask first."""
        if not name:
            return gr.Group(visible=False), "", html.sentence("choose a task first", bad=True)
        count = next((len(one["classes"]) for one in desk.tasks() if one["name"] == name), 0)
        asked = f"**Forget this task with its {count} classes?** It cannot be brought back from here."
        return gr.Group(visible=True), asked, ""

    @guard
    def forget(name: str) -> tuple[Any, Any, Any, Any]:
        """Do it."""
        said = desk.forget(name)
        left = desk.tasks()
        choices = gr.Dropdown(choices=[one["name"] for one in left], value=None)
        return gr.Group(visible=False), html.sentence(said), html.tasks_html(left), choices

    ask.click(wonder, which, [question, words, outcome])
    no.click(lambda: gr.Group(visible=False), None, question)
    yes.click(forget, which, [question, outcome, shown, which])
    return which


def add_teaching(desk: Desk, changed: list[Any]) -> None:
    """Classes are gathered one after another, then learned as one task with its progress shown."""
    gr.Markdown(
        "Name a class, drop some of its images, press *Add class*; then teach all classes as one task."
    )
    with gr.Row():
        with gr.Column():
            label = gr.Textbox(label="Class", placeholder="crow", elem_id="teach-class")
            files = gr.File(
                label="Its images",
                file_count="multiple",
                file_types=["image"],
                elem_id="teach-files",
                height=200,
            )
            add = gr.Button("Add class", elem_id="teach-add")
        with gr.Column():
            gathered = gr.HTML(html.gathered_html({}), elem_id="teach-gathered")
            name = gr.Textbox(label="Name of the task", placeholder="birds", elem_id="teach-name")
            again = gr.Checkbox(label="Replace a task of this name", elem_id="teach-again")
            seconds = gr.Slider(10, 600, 180, step=10, label="Seconds it may take", elem_id="teach-seconds")
            teach = gr.Button("Teach", variant="primary", elem_id="teach")
            clear = gr.Button("Start over", elem_id="teach-clear")
    progress = gr.HTML(elem_id="teach-progress")
    kept = gr.State({})

    def gather(so_far: dict[str, list[str]], word: str, paths: list[str] | None) -> tuple[Any, ...]:
        """Add one class."""
        if not word.strip() or not paths:
            note = html.sentence("name a class and drop its images, then press Add class", bad=True)
            return so_far, html.gathered_html(so_far), word, paths, note
        more = {**so_far, word.strip(): [*so_far.get(word.strip(), []), *paths]}
        return more, html.gathered_html(more), "", None, ""

    def learn(so_far: dict[str, list[str]], task: str, anew: bool, most: float) -> Iterator[tuple[Any, ...]]:
        """Teach, telling how far it is."""
        unchanged = [gr.skip()] * len(changed)
        try:
            for one in desk.teach(task, so_far, again=anew, seconds=most):
                yield (html.progress_html(one), *unchanged)
        except DpwError as error:
            yield (html.sentence(str(error), bad=True), *unchanged)
            return
        tasks = desk.tasks()
        names = gr.Dropdown(choices=[known["name"] for known in tasks])
        yield (gr.skip(), html.tasks_html(tasks), names)[: 1 + len(changed)]

    add.click(gather, [kept, label, files], [kept, gathered, label, files, progress])
    clear.click(lambda: ({}, html.gathered_html({}), ""), None, [kept, gathered, progress])
    teach.click(learn, [kept, name, again, seconds], [progress, *changed], show_progress="hidden")
