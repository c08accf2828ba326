"""The command line program ``gpuspawner``.

``main`` parses arguments and runs one sub-command. A command has the name of its package or module.
Every command has two functions: ``configure(parser)`` adds its arguments; ``run(arguments, *, out, notes)`` writes its
result to ``out``, remarks to ``notes``, and returns an exit code. ``common.output`` defines the common exit codes.

The commands share the packages ``common`` (exit codes, findings, output), ``values`` (Helm values files) and
``cluster`` (connection to a cluster). No other package imports ``cli``. To add a command, write a module with the
functions ``configure`` and ``run``, and add the module to ``main._COMMANDS``.
"""
