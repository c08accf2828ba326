"""The trait for files of settings, with an example as Helm values."""

from __future__ import annotations

from traitlets import List, Unicode
from traitlets.config import LoggingConfigurable


class FileTraits(LoggingConfigurable):
    """Where more settings stand, which may change while the hub runs."""

    settings_files = List(
        Unicode(),
        help="""
        YAML files with settings, or folders of such files, that are put over the settings here as Helm puts values
        files over each other. When they change the hub reads them again, without a restart. ::

            hub:
              config:
                GPUSpawner:
                  settings_files: [/etc/gpuspawner]
              extraVolumes:
                - name: gpuspawner-settings
                  configMap: {name: gpuspawner-settings}
              extraVolumeMounts:
                - name: gpuspawner-settings
                  mountPath: /etc/gpuspawner
                  readOnly: true

        Each file holds settings as they stand below `hub.config.GPUSpawner`, by themselves or as the only thing in
        Helm values; traits that are no settings (`dry_run`, `language` and KubeSpawner's) are set in Helm values alone.
        Of a folder all `.yaml`, `.yml` and `.json` count, in the order of their names. A later file goes over an
        earlier one: mappings are merged, `null` takes out, anything else is taken whole. What a group override or a
        hook changes for a person goes over the files. A file mounted with `subPath` never changes. What happens when a
        file is wrong, and how to see it: docs/operations.md.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)
