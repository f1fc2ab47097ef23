"""Reports: `write_report(["runs/a", "runs/b"], "report.html")`, `write_evaluation(score, "folder.html")`."""

from dpw.report.build import write_report
from dpw.report.evaluation import write_evaluation

__all__ = ["write_evaluation", "write_report"]
