"""What the DPW paper's appendix prints dataset by dataset: Transfer, Avg and Last in percent.

The columns are the datasets in the order in which they are learned, then the average as printed. The first
dataset has no Transfer. A few printed averages are not those of their row: mtil-fs Transfer of moe-adapters
(69.4) and of dpw (70.0), mtil-order2 Transfer of dpw-reduced (65.4).
"""

from collections.abc import Mapping
from typing import NamedTuple

PRINTED = {
    "mtil": """
        transfer zscl            - 86.0 67.4 45.4 50.4 69.1 87.6 61.8 86.8 60.1 66.8 68.1
        transfer diki            - 92.9 69.0 43.2 48.2 67.4 85.2 63.0 87.9 63.8 66.2 68.7
        transfer moe-adapters    - 87.9 68.2 44.4 49.9 70.7 88.7 59.7 89.1 64.5 65.5 68.9
        transfer gift            - 88.5 69.8 46.0 49.4 68.5 87.1 69.9 88.9 57.7 67.7 69.3
        transfer dpw-reduced     - 92.9 68.9 45.2 53.7 71.1 86.4 60.4 89.7 66.0 65.8 70.0
        transfer dpw             - 92.9 69.0 45.3 54.2 71.1 86.2 63.8 89.3 65.7 66.5 70.4
        avg      zscl         45.1 92.0 80.1 64.3 79.5 81.6 89.6 75.2 88.9 64.7 68.0 75.4
        avg      diki         45.1 95.5 83.1 64.8 79.9 83.5 87.0 76.2 89.6 67.0 67.1 76.3
        avg      moe-adapters 50.2 91.9 83.1 69.4 78.9 84.0 89.1 73.7 89.3 67.7 66.9 76.7
        avg      gift         51.9 93.9 81.4 67.7 80.3 82.8 89.3 80.6 90.3 63.1 68.9 77.3
        avg      dpw-reduced  57.8 96.2 83.9 69.2 82.1 85.8 87.8 74.6 91.2 69.6 67.0 78.6
        avg      dpw          60.4 96.2 84.5 70.8 82.4 85.8 87.7 76.8 90.9 69.4 67.6 79.3
        last     zscl         40.6 92.2 81.3 70.5 94.8 90.5 91.9 98.7 93.9 85.3 80.2 83.6
        last     diki         45.2 95.7 86.3 72.9 98.0 97.0 89.2 99.4 94.2 81.6 76.6 85.1
        last     moe-adapters 49.8 92.2 86.1 78.1 95.7 94.3 89.5 98.1 89.9 81.6 80.0 85.0
        last     gift         47.9 95.6 82.8 75.1 97.3 94.2 91.7 99.2 94.2 87.0 80.9 86.0
        last     dpw-reduced  57.8 96.5 87.3 78.2 98.3 98.1 89.5 99.5 94.9 85.6 78.1 87.6
        last     dpw          60.5 96.6 87.9 80.4 98.5 98.1 89.4 99.6 95.1 86.3 78.8 88.3
    """,
    "mtil-order2": """
        transfer zscl            - 88.3 57.5 84.7 68.1 64.8 21.1 88.2 45.3 55.2 68.2 64.2
        transfer diki            - 85.8 59.8 89.1 71.8 62.6 24.3 93.3 42.7 46.8 67.8 64.4
        transfer moe-adapters    - 88.8 59.5 89.1 69.9 64.4 18.1 86.9 43.7 54.6 68.2 64.3
        transfer gift            - 88.3 63.4 88.1 70.8 67.7 22.8 90.4 46.7 51.8 68.8 65.9
        transfer dpw-reduced     - 86.9 61.6 89.3 71.3 63.2 24.3 93.3 44.8 50.4 68.6 65.3
        transfer dpw             - 85.9 63.3 89.4 72.2 64.2 24.6 94.0 44.6 49.4 69.1 65.7
        avg      zscl         81.7 91.3 91.1 91.0 82.9 72.5 33.6 89.7 53.3 62.8 69.9 74.5
        avg      diki         81.9 88.9 92.1 92.8 87.7 70.3 34.3 94.2 51.5 56.1 69.5 74.5
        avg      moe-adapters 84.9 89.9 89.3 91.4 86.2 72.2 33.4 89.4 53.3 61.4 69.9 74.7
        avg      gift         83.2 90.8 92.6 92.8 85.8 74.1 36.0 92.1 54.7 60.0 70.4 75.7
        avg      dpw-reduced  85.7 89.1 92.4 93.2 88.4 71.3 39.1 94.5 53.2 59.1 70.3 76.0
        avg      dpw          86.6 88.9 92.8 93.6 88.5 71.5 40.4 94.9 54.2 58.3 70.9 76.4
        last     zscl         78.2 91.1 97.6 92.5 87.4 78.2 45.0 92.3 72.7 96.2 86.3 83.4
        last     diki         81.9 89.2 99.4 94.3 96.8 76.7 46.3 95.9 74.8 98.3 86.6 85.5
        last     moe-adapters 84.1 88.5 94.0 91.8 94.1 77.8 50.4 93.3 77.1 87.7 86.6 84.1
        last     gift         81.0 90.2 98.6 94.0 91.5 78.6 51.7 94.6 75.6 95.4 86.6 85.3
        last     dpw-reduced  85.7 89.4 99.5 94.7 98.1 78.1 56.9 96.6 78.4 98.4 87.3 87.6
        last     dpw          86.6 89.2 99.6 95.1 97.9 78.4 59.4 96.4 79.8 98.4 87.9 88.1
    """,
    "odcl-cil": """
        transfer dpw-reduced     - 92.9 68.9 45.2 53.7 71.1 86.4 60.4 89.7 66.0 65.8 70.0
        transfer dpw             - 92.9 69.0 45.3 54.2 71.1 86.2 63.8 89.3 65.7 66.5 70.4
        avg      dpw-reduced  57.3 92.8 83.2 67.5 81.7 85.0 87.7 74.5 90.6 69.5 66.9 77.9
        avg      dpw          60.2 93.5 83.9 68.9 82.0 84.8 87.6 76.7 90.4 69.4 67.6 78.6
        last     dpw-reduced  57.2 89.9 85.2 74.1 97.7 96.5 89.1 99.2 92.7 85.1 77.4 85.8
        last     dpw          60.1 91.1 85.9 75.7 97.9 96.2 89.1 99.2 93.0 86.0 78.3 86.6
    """,
    "odcl-cil-merged": """
        transfer zscl            - 84.6 67.5 44.8 51.5 69.0 87.6 62.3 87.1 59.7 66.4 68.0
        transfer moe-adapters    - 88.2 66.8 44.7 54.1 70.6 88.4 59.5 89.0 64.7 65.0 69.1
        transfer coleclip        - 88.2 65.1 44.7 54.1 68.8 88.5 59.5 89.0 64.7 65.1 68.8
        transfer dpeclip         - 88.2 67.2 44.7 54.0 70.6 88.2 59.5 89.0 64.7 64.8 69.1
        avg      zscl         46.3 68.3 74.3 56.3 79.1 81.4 89.5 74.0 89.0 64.4 67.5 71.8
        avg      moe-adapters 37.2 65.3 79.5 67.6 19.7 83.1 80.5 74.0 88.5 67.5 65.3 66.2
        avg      coleclip     48.2 77.8 71.7 65.7 76.8 83.8 89.6 72.2 90.3 68.0 66.4 73.7
        avg      dpeclip      49.9 85.3 81.5 65.3 81.6 84.3 89.9 74.0 90.4 68.3 66.2 76.1
        last     zscl         42.5 64.4 67.2 54.8 89.7 90.4 91.7 95.8 93.4 85.2 78.3 77.6
        last     moe-adapters 34.1 47.6 80.9 75.5  0.0 93.0 70.8 99.4 86.4 79.8 68.9 66.9
        last     coleclip     48.1 73.1 65.2 69.6 84.0 96.2 90.9 94.6 93.5 82.6 79.3 79.7
        last     dpeclip      49.9 84.2 83.2 71.1 97.0 95.8 92.0 99.4 93.9 84.5 80.2 84.6
    """,
    "mtil-fs": """
        transfer diki            - 92.7 68.6 44.1 47.8 69.9 86.1 58.4 89.0 65.1 65.2 68.7
        transfer moe-adapters    - 88.4 68.2 42.9 53.5 70.1 88.5 63.3 89.0 64.7 65.1 69.3
        transfer dpw             - 92.9 68.9 45.2 53.7 71.1 86.4 60.4 89.7 66.0 65.8 69.6
        avg      diki         39.7 95.6 76.7 61.4 61.2 83.3 86.3 69.3 90.2 67.6 66.1 72.5
        avg      moe-adapters 43.3 92.1 77.2 66.7 80.0 84.8 88.3 74.4 89.0 67.1 65.9 75.3
        avg      dpw          51.3 95.7 77.5 65.9 74.1 85.3 86.7 71.2 91.0 68.8 67.1 75.9
        last     diki         39.6 95.8 78.5 68.0 67.0 94.4 86.4 88.3 93.5 78.6 74.3 78.6
        last     moe-adapters 43.3 92.6 79.2 75.6 95.1 97.1 88.1 93.8 89.1 78.0 73.7 82.3
        last     dpw          51.4 96.0 79.4 73.8 90.2 97.4 87.0 91.8 93.9 83.4 76.6 83.7
    """,
}


class DatasetFigures(NamedTuple):
    """One printed row: a value for each dataset, None where there is none, and the printed average."""

    values: tuple[float | None, ...]
    average: float


def _parsed(text: str) -> dict[tuple[str, str], DatasetFigures]:
    """The rows of one table by metric and method."""
    found = {}
    for line in text.strip().splitlines():
        metric, method, *cells, average = line.split()
        values = tuple(None if cell == "-" else float(cell) for cell in cells)
        found[metric, method] = DatasetFigures(values, float(average))
    return found


# By benchmark, then by metric and method.
BY_DATASET: Mapping[str, Mapping[tuple[str, str], DatasetFigures]] = {
    benchmark: _parsed(text) for benchmark, text in PRINTED.items()
}
