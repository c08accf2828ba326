"""Exit codes, findings about files, and output formats that all commands share.

The package must not import a command, nor code that reads values files or clusters.

- ``findings``: mistakes in values files with severity and line; sorting and formatting of findings.
- ``output``: exit codes, colors, columns, ``--output``, and the streams that keep control characters off the terminal.
"""

from gpuspawner.cli.common.findings import FilePosition, Finding, Severity, format_findings, sort_findings
from gpuspawner.cli.common.output import Paint, add_output_argument, format_columns, sanitize, write_result

__all__ = [
    "FilePosition",
    "Finding",
    "Paint",
    "Severity",
    "add_output_argument",
    "format_columns",
    "format_findings",
    "sanitize",
    "sort_findings",
    "write_result",
]
