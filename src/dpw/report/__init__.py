"""Reports of finished runs: `write_report(["runs/a", "runs/b"], "report.html")`."""

from dpw.report.build import write_report

__all__ = ["write_report"]
