"""The command line program ``gpuspawner``.

``main`` parses arguments and runs one sub-command; ``check``, ``inventory``, ``explain`` and ``doctor`` have a room
each, ``convert``, ``schema``, ``demo`` and ``version`` a module. Every command has ``configure(parser)`` and
``run(arguments, *, out, notes)``, which returns an exit code of ``common.output``.

Shared rooms: ``common`` (exit codes, findings, output), ``values`` (Helm values files), ``cluster`` (connection and
reading). Other packages import nothing from here. A new command is a module with these two functions and a line in
``main._COMMANDS``.
"""

__all__: list[str] = []
