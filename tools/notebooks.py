"""Run the notebooks of docs/notebooks and keep what their cells gave: `python tools/notebooks.py`.

Numbers of cells, times and the machine's names are left out, so that running again changes only results.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
LARGEST = 150_000  # bytes of a notebook with its outputs


def run(path: Path) -> nbformat.NotebookNode:
    """A notebook after all its cells were run in an empty folder; an error in a cell is an error."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        client = NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}})
        client.execute()
    return tidy(notebook)


def tidy(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Without what differs from run to run, and without bars of progress."""
    notebook.metadata = {"language_info": {"name": "python"}}
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number}", {}
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = [kept for kept in cell.outputs if not _passing(kept)]
            for kept in cell.outputs:
                kept.pop("execution_count", None)
                if kept.output_type == "execute_result":
                    kept.output_type = "display_data"
    return notebook


def _passing(output: nbformat.NotebookNode) -> bool:
    """Whether an output is only of the moment: a bar of progress, or a warning of some library."""
    return "text/html" in output.get("data", {}) or output.get("name") == "stderr"


def main() -> int:
    """Run the named notebooks, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebooks", nargs="*", type=Path, default=sorted(FOLDER.glob("*.ipynb")))
    for path in parser.parse_args().notebooks:
        text = nbformat.writes(run(path)) + "\n"
        path.write_text(text, encoding="utf-8")
        print(f"{path}: {len(text) / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
