"""Reads the pods and events of servers from KubeSpawner's reflectors, and replaces reflectors that have stopped.

KubeSpawner watches the pods and events of its servers through reflectors, which all spawners of a namespace share. This
package reads pods and events from the reflectors' memory. It sends requests to the API server only through methods of
KubeSpawner.

The input is a spawner or a reflector. The output is pods and events as the API server sends them, and the owners of
pods. This package contains no code for choices, policy or starts.

- ``reflectors``: replace dead reflectors, and let servers start if the hub may not read events.
- ``hub_pods``: the pods of this hub's servers, their owners and their events.
- ``private_api``: the private names of JupyterHub, KubeSpawner and traitlets that gpuspawner uses.
"""
