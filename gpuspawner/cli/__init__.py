"""The command line program ``gpuspawner``.

``main`` parses arguments and runs one sub-command. ``check``, ``inventory``, ``explain`` and ``doctor`` are packages;
``convert``, ``schema``, ``demo`` and ``version`` are modules. Every command has ``configure(parser)`` and
``run(arguments, *, out, notes)``, which returns an exit code of ``common.output``.

The commands share the packages ``common`` (exit codes, findings, output), ``values`` (Helm values files) and
``cluster`` (connection to a cluster). No other package imports ``cli``. A new command is a module with
the functions ``configure`` and ``run``, and an entry in ``main._COMMANDS``.
"""

__all__: list[str] = []
