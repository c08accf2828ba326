"""The traits of :class:`gpuspawner.GPUSpawner`: every option for admins, with examples as Helm values.

Structured options are plain ``Dict`` traits; :mod:`gpuspawner.settings` validates their content.
"""

from __future__ import annotations

from typing import Any, ClassVar

from traitlets import Bool, Dict, Enum, Float, List, Unicode
from traitlets.config import Config, LoggingConfigurable

SETTING_TRAITS = (
    *("images", "custom_images", "cpu", "memory", "run_time", "shared_memory", "priorities"),
    *("gpus", "presets", "only_presets", "policy", "pools", "accelerators", "discover_gpus", "queue"),
)
"""Names of the traits that settings files may set, too; :class:`gpuspawner.settings.Settings` validates the values."""
STARTS_FROM_LINKS = "start"
LINK_BEHAVIORS = ("confirm", STARTS_FROM_LINKS)
"""Values of the trait ``links``, the default first."""
_FORM_TRAITS = frozenset({"options_form", "options_from_form"})


class GPUSpawnerTraits(LoggingConfigurable):
    """Traits that set what users can choose and how the hub reads the cluster.

    The examples in the help texts are Helm values of zero-to-jupyterhub.
    """

    images = Dict(
        allow_none=True,
        help="""
        Container images users may pick, by slug. Left out: `KubeSpawner.image` is the only one.

        The first one (the smallest `order`, else as they stand) is selected at first. The slug is what is saved and
        what links and the REST API name; changing it makes saved choices fall back to the default. ::

            hub:
              config:
                GPUSpawner:
                  images:
                    pytorch:
                      display_name: PyTorch 2.9, CUDA 12.8
                      description: With torchvision and Lightning
                      image: quay.io/jupyter/pytorch-notebook:cuda12-2026-10-01
                      cuda: "12.8"
                      vendors: [nvidia]
                    minimal:
                      display_name: Minimal
                      image: quay.io/jupyter/minimal-notebook:2026-10-01
                      vendors: []

        `vendors` names the GPU vendors the image can use; `[]` stands for work without a GPU, and an image without
        `vendors` goes with every GPU. `null` removes an entry of another values file, `enabled: false` hides it.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    custom_images = Dict(
        allow_none=True,
        help="""
        Whether users may also name an image by its reference. Left out: they may pick from `images` alone. ::

            hub:
              config:
                GPUSpawner:
                  custom_images:
                    allowed: true
                    registries: [quay.io/jupyter, ghcr.io]
                    description: Any image that was made for JupyterHub

        `registries` holds where such images must come from: registries, or the beginning of names in one, in whole
        parts (`ghcr.io/acme` is none of `ghcr.io/acme-labs`). Left out: anywhere. A name without a registry is one of
        `docker.io`. What is inside such an image is not known, so it goes with every GPU, unless `images` lists the
        same reference and says what is inside: docs/images-and-gpus.md.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    cpu = Dict(
        allow_none=True,
        help="""
        Bounds of the CPU limit in cores. Left out: from half a core to what the largest node has. The default is then
        `KubeSpawner.cpu_limit`, or no limit, and each server requests `KubeSpawner.cpu_guarantee`, but never more than
        its limit. ::

            hub:
              config:
                GPUSpawner:
                  cpu: {min: 0.5, max: 32, step: 0.5, default: 2, guarantee: 0.5}

        `guarantee` is the part of the limit that is requested, 0 to 1. With `cpu`, KubeSpawner's two traits have no
        effect.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    memory = Dict(
        allow_none=True,
        help="""
        Bounds of the memory limit. Left out: from 1 GiB to what the largest node has. The default is then
        `KubeSpawner.mem_limit`, or no limit, and each server requests `KubeSpawner.mem_guarantee`, but never more than
        its limit. ::

            hub:
              config:
                GPUSpawner:
                  memory: {min: 1G, max: 256G, step: 1G, default: 8G, guarantee: 1.0}

        As everywhere in JupyterHub K, M, G and T are powers of 1024. `guarantee` is the part of the limit that is
        requested; with less than 1 a server can be ended when its node runs out of memory. With `memory`, KubeSpawner's
        two traits have no effect.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    run_time = Dict(
        allow_none=True,
        help="""
        Bounds of how long a server runs at most, chosen by users under "More". Left out: servers run on, and nobody is
        asked. ::

            hub:
              config:
                GPUSpawner:
                  run_time: {min: 30m, max: 24h, step: 30m, default: 8h}

        Lengths of time are written `30m`, `8h`, `2d` or `2h30m`. Without them, `min` and `step` are 15 minutes and
        `default` is 8 hours, or the nearest that is allowed. Kubernetes itself ends the pod
        (`activeDeadlineSeconds`), counted from when its node has taken it; where `extra_pod_config` has a shorter time,
        that counts: docs/form.md.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    shared_memory = Dict(
        allow_none=True,
        help="""
        Bounds of the size of /dev/shm, which users may choose under "More". Left out: nobody is asked, and the GPU
        types decide (`shm` in `gpus`). ::

            hub:
              config:
                GPUSpawner:
                  shared_memory: {min: 1G, max: 32G, step: 1G}

        Without them, `min` and `step` are 256 MiB. It is a part of the memory limit, so nobody gets more than the
        memory chosen. A field that is left empty leaves it to the GPU type, or to the container runtime (64 MiB). Where
        `volume_mounts` has a /dev/shm of yours, that is the only one, whatever is chosen.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    priorities = Dict(
        allow_none=True,
        help="""
        Priorities users may pick under "More", by slug; the first one is the usual one. Left out: nobody is asked. ::

            hub:
              config:
                GPUSpawner:
                  priorities:
                    normal: {display_name: Normal, class: jupyter-normal, value: 100}
                    low:
                      display_name: Low
                      description: Your server may be stopped when others need its place.
                      class: jupyter-low
                      value: -10

        `class` is the name of a PriorityClass of the cluster, `value` the number in it, by which those who wait are
        counted. It takes the place of `KubeSpawner.priority_class_name`.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    gpus = Dict(
        allow_none=True,
        help="""
        GPU types users may pick, by slug. They come before those found by node labels (see `discover_gpus`) and take
        the place of the ones that stand for the same GPUs. Other nodes of the same model keep the type that was found,
        where one label tells all of them apart: none of them has it, or all have it with other values, at most 32. The
        hub's log and `gpuspawner inventory` name those that nobody is offered. ::

            hub:
              config:
                GPUSpawner:
                  gpus:
                    a100-80gb:
                      display_name: NVIDIA A100 80 GB
                      resource: nvidia.com/gpu
                      match:
                        nvidia.com/gpu.product: [NVIDIA-A100-SXM4-80GB, NVIDIA-A100-80GB-PCIe]
                      max_count: 8
                      tolerations:
                        - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
                      runtime_class: nvidia
                      shm: 0.5
                      start_timeout: 900
                      max_runtime: 12h

        `match` holds node labels and their allowed values; all labels must match. `tolerations` that are left out are
        those of the taints that keep other pods off GPU nodes by convention. `shm` is the size of /dev/shm as a
        fraction of the memory limit. `start_timeout` takes the place of `KubeSpawner.start_timeout` for this type, in
        seconds: for nodes that are made when they are needed; `scale_up` says what may be made.
        `max_runtime` ends every server with the type after so long, whoever's it is: docs/policy.md. `any_of` and
        `min_memory` make one choice of several types. `spot` (true or false) says whether the cloud may take the nodes
        back at any time, `interconnect` in a few words what links several GPUs in one node (``NVLink``); without them
        labels do. All of these: docs/live-capacity.md.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    presets = Dict(
        allow_none=True,
        help="""
        Named bundles of choices, each started with one button, by slug. A preset with `kubespawner_override`,
        `choices`, `unlimited` or a guarantee is fixed: a server gets exactly what the preset says. ::

            hub:
              config:
                GPUSpawner:
                  presets:
                    small: {display_name: Small, cpu: 1, memory: 4G}
                    train:
                      display_name: Training
                      cpu: 8
                      memory: 32G
                      gpu: a100-80gb
                      gpu_count: 1
                    course:
                      display_name: Course
                      allowed_groups: [students]
                      cpu: unlimited
                      cpu_guarantee: 0.5
                      kubespawner_override:
                        default_url: /lab/tree/course
                        node_selector: {pool: teaching}
                      choices:
                        size:
                          display_name: Memory
                          entries:
                            small: {display_name: 4 GB, memory: 4G, default: true}
                            large: {display_name: 16 GB, memory: 16G, allowed_groups: [tutors]}

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    only_presets = Bool(
        False,
        help="""
        Whether users may start only presets, and change nothing in them but their choices. The form then has no fields
        for single amounts, and the REST API refuses other options. ::

            hub:
              config:
                GPUSpawner:
                  only_presets: true
                  presets:
                    cpu: {display_name: CPU only, cpu: 2, memory: 8G}
                    gpu: {display_name: GPU, cpu: 8, memory: 32G, gpu: t4, gpu_count: 1}

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    accelerators = Dict(
        allow_none=True,
        help="""
        Changes to the built-in table of GPU models, from which the names and memory sizes of discovered types come, by
        model. ::

            hub:
              config:
                GPUSpawner:
                  accelerators:
                    a100-40gb: {name: A100 of the physics department}

        `null` or `enabled: false` takes a model out of the table.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    discover_gpus = Bool(
        default_value=True,
        help="""
        Whether GPU types are also taken from the labels of the cluster's nodes, as NVIDIA's GPU Feature Discovery,
        AMD's node labeller, GKE and Karpenter set them. Needs the right to list nodes (`helm-values/rbac.yaml`). A
        single one is taken out by its slug, with `enabled: false` in `gpus`. ::

            hub:
              config:
                GPUSpawner:
                  discover_gpus: false
                  gpus:
                    a100-80gb:
                      display_name: NVIDIA A100 80 GB
                      resource: nvidia.com/gpu
                      match: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    capacity_timeout = Float(
        3.0,
        min=0.1,
        help="""
        Seconds a form waits for the cluster before it is shown without numbers. ::

            hub:
              config:
                GPUSpawner:
                  capacity_timeout: 5

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    dry_run = Bool(
        True,
        help="""
        Have the API server look at each pod before anything is created for it, so that a quota, an admission webhook or
        a mistake in the settings refuses a start at once and leaves no volume claim behind. `modify_pod_hook` is
        therefore called before the volume claim is made, once a start. ::

            hub:
              config:
                GPUSpawner:
                  dry_run: false

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    extra_options = List(
        Unicode(),
        help="""
        User options of your own that are let through to your hooks, by name: to `pre_spawn_hook`, to
        `modify_pod_hook` and to methods of a subclass, in `spawner.user_options`. Any other option that is not
        gpuspawner's refuses the start. ::

            hub:
              config:
                GPUSpawner:
                  extra_options: [repo_url, token]

        They come from the REST API, or from fields of these names that you put into the form, and are stored with the
        choice. gpuspawner does not look at their values and writes them into no log, annotation or message; your hooks
        must check them, because users can send anything. `image` in the list lets the REST API send the reference of
        an image as `image`, as BinderHub does, where `custom_images` allows it: docs/form.md.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    language = Unicode(
        "",
        help="""
        The language of the form and of its messages, such as `de` or `zh-CN`. Empty: what each person's browser asks
        for, of the languages that are there (docs/form.md), else English. Names and descriptions that you give are
        shown as you write them. ::

            hub:
              config:
                GPUSpawner:
                  language: de

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    links = Enum(
        LINK_BEHAVIORS,
        LINK_BEHAVIORS[0],
        help="""
        What a link to a choice does, such as one from "Copy link". `confirm`: the form opens with the choice filled in
        and asks before anything starts. `start`: the server starts at once. A choice that is refused opens the form in
        both cases. ::

            hub:
              config:
                GPUSpawner:
                  links: start

        With `start`, everyone who can get a user to open a link can start servers on the user's account, and so use up
        the user's GPUs. Forms and the REST API are not affected: docs/form.md.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    policy = Dict(
        allow_none=True,
        help="""
        Who may have what. Left out: everybody may have all that is offered. ::

            hub:
              config:
                GPUSpawner:
                  policy:
                    default:
                      max_gpus: 1
                      max_servers_with_gpu: 1
                      cpu: {max: 8}
                      memory: {max: 16G}
                      max_runtime: 8h
                    groups:
                      ml:
                        max_gpus: 4
                        max_gpus_per_server: 2
                        max_servers_with_gpu: 2
                        gpus: {a100-80gb: {max_gpus: 2, max_runtime: 4h}, "*": {}}
                      probation: {deny: true, gpus: [a100-80gb], max_gpus: 1}
                    users:
                      ada: {max_gpus: unlimited}

        `default` holds for everybody. Each group of `groups` that a person is in puts its own keys in place of those;
        of several groups the most generous wins, key by key. A group with `deny: true` caps the outcome. The keys of
        `users` come last. `images`, `custom_images`, `gpus`, `max_gpus`, `max_gpus_per_server`, `max_servers_with_gpu`,
        `cpu`, `memory` and `max_runtime` may be said; what nobody says has no limit, except that a rule which lists
        `images` allows custom images only with `custom_images: true`. `null` removes a group, a person or a GPU type of
        another values file, `enabled: false` a group's or a person's rule. `hide: true` leaves what is out of reach out
        of the form, where it is grayed out otherwise. How it all goes together: docs/policy.md.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    pools = Dict(
        allow_none=True,
        help="""
        GPUs that the people of some groups share, by slug: all their servers together hold at most so many. ::

            hub:
              config:
                GPUSpawner:
                  pools:
                    physics:
                      display_name: Physics
                      groups: [physics, astro]
                      gpus: [a100-80gb]
                      max_gpus: 16

        `gpus` left out stands for all types. Nobody else is kept from these types: that is for `policy` to say.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    queue = Dict(
        allow_none=True,
        help="""
        A queue of Kueue (https://kueue.sigs.k8s.io) that servers with a GPU go through. Left out: they ask the
        scheduler for a node at once. ::

            hub:
              config:
                GPUSpawner:
                  queue: {local_queue: gpu-queue, priority_class: interactive, timeout: 3600, gpus: ["*"]}

        `local_queue` is the name of a LocalQueue in the namespace of the servers, `priority_class` that of a
        WorkloadPriorityClass. `timeout` is how long the hub waits for a server that is queued, in seconds; where its
        type has a longer `start_timeout`, that counts. `gpus` holds the GPU types whose servers are queued, by slug.
        Labels of yours in `KubeSpawner.extra_labels` stay as they are: docs/queue.md.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

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

    def collect_settings(self) -> dict[str, Any]:
        """Return the configured value of each trait in :data:`SETTING_TRAITS` that is not None."""
        written = {name: getattr(self, name) for name in SETTING_TRAITS}
        return {name: value for name, value in written.items() if value is not None}

    _form_found_in: ClassVar[tuple[Config | None, bool]] = (None, False)

    def has_configured_form(self) -> bool:
        """Return whether the admin has configured a form of their own: ``options_form`` or ``options_from_form``.

        The method runs often, for example for each server in JupyterHub's list of users. The class therefore caches the
        result for the last ``config`` object, which JupyterHub gives to all spawners.
        """
        cls = type(self)
        if cls._form_found_in[0] is not self.config:
            found = not _FORM_TRAITS.isdisjoint(self._find_my_config(self.config))
            cls._form_found_in = (self.config, found)
        return cls._form_found_in[1]
