"""Exit codes, findings about files, and output formats that all commands share.

The package must not import a command, nor code that reads values files or clusters.

- ``findings``: mistakes in values files with severity and line; sorting and formatting of findings.
- ``output``: exit codes, colors, columns, ``--output``, and the streams that keep control characters off the terminal.
"""
