"""Reports as the SDK returns them: they show themselves in notebooks."""

from benchyard.models.reports.job_report import ReportView
from benchyard.reports.report_pictures import report_html
from benchyard.reports.report_texts import markdown


class JobReport(ReportView):
    """The report of a job or of a benchmark run."""

    def _repr_html_(self) -> str:
        """Return a table and a picture of the intervals, which Jupyter shows."""
        return report_html(self)

    def markdown(self) -> str:
        """Return the report as Markdown, for a pull request."""
        return markdown(self)
