"""The traits of :class:`gpuspawner.GPUSpawner`: every option for admins, with examples as Helm values.

Structured options are plain ``Dict`` traits; :mod:`gpuspawner.settings` validates their content.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any, ClassVar

from traitlets import Bool, Enum, Float, List, TraitType, Unicode
from traitlets.config import Config, LoggingConfigurable

from gpuspawner.core.value_types import list_keys
from gpuspawner.hub.config.shared_dict import SharedDict
from gpuspawner.settings.models import SettingsModel

SETTING_TRAITS = tuple(list_keys(SettingsModel))
"""Names of the traits that settings files may set, too; :class:`gpuspawner.settings.Settings` validates the values."""
STARTS_FROM_LINKS = "start"
LINK_BEHAVIORS = ("confirm", STARTS_FROM_LINKS)
"""Values of the trait ``links``, the default first."""
_FORM_TRAITS = frozenset({"options_form", "options_from_form"})


class GPUSpawnerTraits(LoggingConfigurable):
    """Traits that set what users can choose and how the hub reads the cluster.

    The examples in the help texts are Helm values of zero-to-jupyterhub.
    """

    images = SharedDict(
        allow_none=True,
        help="""
        Container images that users may pick, by slug. Left out: `KubeSpawner.image` is the only one.

        The first one (the smallest `order`, else in the order of the file) is selected at first. Saved choices, links
        and the REST API use the slug: if you change it, saved choices fall back to the default. ::

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

        `vendors` lists the vendors whose GPUs the image can use; `[]` means none. An image without `vendors` may be
        used with every GPU. `null` removes an entry of another values file, `enabled: false` hides it.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    custom_images = SharedDict(
        allow_none=True,
        help="""
        Whether users may also enter an image reference. Left out: they may pick only from `images`. ::

            hub:
              config:
                GPUSpawner:
                  custom_images:
                    allowed: true
                    registries: [quay.io/jupyter, ghcr.io]
                    description: Any image that was made for JupyterHub

        `registries` lists where such images must come from: registries, or prefixes of repositories in whole parts
        (`ghcr.io/acme` does not match `ghcr.io/acme-labs`). Left out: anywhere. A reference without a registry is in
        `docker.io`. The hub does not know the contents of such an image, so it may be used with every GPU, unless
        `images` lists the same reference: docs/images-and-gpus.md.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    cpu = SharedDict(
        allow_none=True,
        help="""
        Bounds of the CPU limit in cores. Left out: from half a core to what the largest node has. The default is then
        `KubeSpawner.cpu_limit`, or no limit, and each server requests `KubeSpawner.cpu_guarantee`, but never more than
        its limit. ::

            hub:
              config:
                GPUSpawner:
                  cpu: {min: 0.5, max: 32, step: 0.5, default: 2, guarantee: 0.5}

        `guarantee` is the fraction of the limit that the pod requests, above 0 to 1. With `cpu`, KubeSpawner's two
        traits have no effect.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    memory = SharedDict(
        allow_none=True,
        help="""
        Bounds of the memory limit. Left out: from 1 GiB to what the largest node has. The default is then
        `KubeSpawner.mem_limit`, or no limit, and each server requests `KubeSpawner.mem_guarantee`, but never more than
        its limit. ::

            hub:
              config:
                GPUSpawner:
                  memory: {min: 1G, max: 256G, step: 1G, default: 8G, guarantee: 1.0}

        As everywhere in JupyterHub, K, M, G and T are powers of 1024. `guarantee` is the fraction of the limit that the
        pod requests. With less than 1, Kubernetes may end a server when its node runs out of memory. With `memory`,
        KubeSpawner's two traits have no effect.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    run_time = SharedDict(
        allow_none=True,
        help="""
        Bounds of the run time, which users choose under "More". Left out: users do not choose, and servers have no time
        limit. ::

            hub:
              config:
                GPUSpawner:
                  run_time: {min: 30m, max: 24h, step: 30m, default: 8h}

        Durations are written `30m`, `8h`, `2d` or `2h30m`. `min` and `step` default to 15 minutes, `default` to 8 hours
        or the nearest allowed value. Kubernetes ends the pod (`activeDeadlineSeconds`); the time counts from when a
        node has accepted the pod. If `extra_pod_config` has a shorter time, that time counts: docs/form.md.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    shared_memory = SharedDict(
        allow_none=True,
        help="""
        Bounds of the size of /dev/shm, which users may choose under "More". Left out: users do not choose, and the GPU
        type decides (`shm` in `gpus`). ::

            hub:
              config:
                GPUSpawner:
                  shared_memory: {min: 1G, max: 32G, step: 1G}

        `min` and `step` default to 256 MiB. Shared memory is part of the memory limit, so it cannot exceed the chosen
        memory. If the field is empty, the GPU type decides, or else the container runtime (64 MiB). If `volume_mounts`
        has a /dev/shm of yours, it is the only one, whatever users choose.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    priorities = SharedDict(
        allow_none=True,
        help="""
        Priorities that users may pick under "More", by slug; the first one is the default. Left out: users do not
        choose. ::

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

        `class` is the name of a PriorityClass of the cluster, and `value` is the value of this class: the hub needs it
        to count the servers ahead. The class replaces `KubeSpawner.priority_class_name`.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    gpus = SharedDict(
        allow_none=True,
        help="""
        GPU types that users may pick, by slug. They precede the types that gpuspawner finds by node labels (see
        `discover_gpus`), and replace found types for the same GPUs. Other nodes of the same model keep the found type
        if one label distinguishes all of them: none of them has the label, or all have it with at most 32 other values.
        The hub's log and `gpuspawner inventory` list GPUs that the form does not offer. ::

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

        `match` has node labels and their allowed values; all labels must match. Without `tolerations`, servers tolerate
        the usual taints of GPU nodes. `shm` is the size of /dev/shm as a fraction of the memory limit. `start_timeout`
        (seconds) replaces `KubeSpawner.start_timeout` for this type; set it for nodes that an autoscaler adds, which
        `scale_up` describes. `max_runtime` ends each server with the type after this time: docs/policy.md. `any_of` and
        `min_memory` combine several types into one choice. `spot` says whether the cloud may take the nodes back at any
        time, `interconnect` what links the GPUs of a node (``NVLink``); without these keys, labels decide. All of these
        keys: docs/live-capacity.md.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    presets = SharedDict(
        allow_none=True,
        help="""
        Named bundles of values for the form's fields, by slug. One press fills them in, and users may then change them.
        What needs traits of KubeSpawner or lists is a profile of `KubeSpawner.profile_list`. ::

            hub:
              config:
                GPUSpawner:
                  presets:
                    small: {display_name: Small, cpu: 1, memory: 4G}
                    train:
                      display_name: Training
                      allowed_groups: [students]
                      cpu: 8
                      memory: 32G
                      gpu: a100-80gb
                      gpu_count: 1

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    accelerators = SharedDict(
        allow_none=True,
        help="""
        Changes to the built-in table of GPU models, by model. The table has names and memory sizes for types that
        gpuspawner finds. ::

            hub:
              config:
                GPUSpawner:
                  accelerators:
                    a100-40gb: {name: A100 of the physics department}

        `null` or `enabled: false` removes a model from the table.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    discover_gpus = Bool(
        default_value=True,
        help="""
        Whether gpuspawner also finds GPU types by the node labels that NVIDIA's GPU Feature Discovery, AMD's node
        labeller, GKE and Karpenter set. The hub needs the right to list nodes (`helm-values/rbac.yaml`). To remove a
        single type, set `enabled: false` for its slug in `gpus`. ::

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

    new_nodes = Enum(
        ("possible", "none"),
        default_value="possible",
        allow_none=True,
        help="""
        Whether nodes may be added that neither `scale_up` nor a NodePool of Karpenter describes.

        Most autoscalers do not publish which nodes they can add. With `possible`, the hub therefore starts a server
        that no existing node could take, and the server waits for a new node up to its start timeout. With `none`, the
        hub refuses such a server at once. Set `none` if nothing adds nodes to the cluster, such as on machines of your
        own. `new_nodes` of a GPU type replaces this value for the type. ::

            hub:
              config:
                GPUSpawner:
                  new_nodes: none
                  gpus:
                    h100:
                      resource: nvidia.com/gpu
                      match: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
                      new_nodes: possible

        `gpuspawner doctor` proposes `none` where nothing adds nodes: docs/live-capacity.md.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    capacity_timeout = Float(
        3.0,
        min=0.1,
        help="""
        Seconds that a form waits for answers of the cluster before it opens without numbers. ::

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
        Whether the hub sends each pod to the API server as a dry run before it creates anything. A quota, an admission
        webhook or a mistake in the settings then refuses the start at once, and leaves no volume claim behind. The hub
        therefore calls `modify_pod_hook` before it creates the volume claim, once for each start. The hook gets the pod
        with the whole choice in it. Of the spawner's traits, the choice sets only `image`, and those for CPU and
        memory. ::

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
        Names of user options for your own hooks. `pre_spawn_hook`, `modify_pod_hook` and methods of a subclass find
        them in `spawner.user_options`. The hub refuses a start with any other unknown option. ::

            hub:
              config:
                GPUSpawner:
                  extra_options: [repo_url, token]

        The values come from the REST API, or from fields of these names that you add to the form
        (docs/how-to/own-field.md), and are stored with the choice. gpuspawner does not check the values, and writes
        them into no log, annotation or message. Your hooks must check them, because users can send anything. With
        `image` in the list, the REST API accepts an image reference as `image`, as BinderHub sends it, if
        `custom_images` allows the image: docs/form.md.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    language = Unicode(
        "",
        help="""
        Language of the form and of its messages, such as `de` or `zh-CN`. Empty: the first available language that the
        user's browser asks for (docs/form.md), else English. Your own names and descriptions are not translated. ::

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
        the user's GPUs. Forms and the REST API are not affected: docs/form.md. If `options_form` is your own, or a
        `profile_list` stands alone, servers start from links at once, whatever `links` is, as with KubeSpawner.
        `group_overrides` do not change `links`.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    policy = SharedDict(
        allow_none=True,
        help="""
        Who may have what. Left out: every user may have everything on offer. ::

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

        Put limits of all users in `default`. The keys of a user's groups replace those of `default`; of several groups,
        the most generous wins, key by key. A group with `deny: true` caps the result. The keys of `users` come last. A
        rule may have `images`, `custom_images`, `gpus`, `max_gpus`, `max_gpus_per_server`, `max_servers_with_gpu`,
        `cpu`, `memory` and `max_runtime`. A key that no rule has is no limit, except that a rule with `images` allows
        custom images only with `custom_images: true`. `null` removes a group, a user or a GPU type of another values
        file; `enabled: false` disables the rule of a group or a user. With `hide: true`, the form omits what the user
        may never have, instead of graying it out. How rules combine: docs/policy.md.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    pools = SharedDict(
        allow_none=True,
        help="""
        GPUs that the members of some groups share, by slug. All of their servers together hold at most `max_gpus`. ::

            hub:
              config:
                GPUSpawner:
                  pools:
                    physics:
                      display_name: Physics
                      groups: [physics, astro]
                      gpus: [a100-80gb]
                      max_gpus: 16

        Without `gpus`, all types count. A pool does not restrict other users: use `policy` for that.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    queue = SharedDict(
        allow_none=True,
        help="""
        A queue of Kueue (https://kueue.sigs.k8s.io) for servers with a GPU. Left out: servers do not use a queue. ::

            hub:
              config:
                GPUSpawner:
                  queue: {local_queue: gpu-queue, priority_class: interactive, timeout: 3600, gpus: ["*"]}

        `local_queue` is the name of a LocalQueue in the namespace of the servers, `priority_class` that of a
        WorkloadPriorityClass. `timeout` is how many seconds the hub waits for a queued server; a longer `start_timeout`
        of the GPU type counts instead. `gpus` lists the slugs of GPU types whose servers are queued. Labels in
        `KubeSpawner.extra_labels` have precedence: docs/queue.md.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    profile_cards = Bool(
        True,
        help="""
        Whether the form shows KubeSpawner's `profile_list` as cards, with what each profile gives and whether it starts
        now. With False, the form is KubeSpawner's; limits, the waiting page and metrics stay. ::

            hub:
              config:
                GPUSpawner:
                  profile_cards: false

        The form is also KubeSpawner's with a `profile_form_template`, with a `form.html` in
        `additional_profile_form_template_paths`, and with a subclass that renders profiles. docs/profiles.md has more.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    settings_files = List(
        Unicode(),
        help="""
        YAML files with settings, or folders of such files. They override the settings in Helm values, as Helm merges
        values files. The hub reads changed files again without a restart. ::

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

        A file contains the settings below `hub.config.GPUSpawner`, either at its top or at their place in Helm values.
        It may not contain other traits (`dry_run`, `language` and KubeSpawner's). In a folder, the hub reads all
        `.yaml`, `.yml` and `.json` files in the order of their names. Later files override earlier ones: mappings are
        merged, `null` removes, any other value replaces. Group overrides and hooks for single users override the files.
        A file that is mounted with `subPath` never changes. What happens if a file is wrong: docs/operations.md.

        .. versionadded:: 0.1
        """,
    ).tag(config=True)

    def collect_settings(self) -> dict[str, Any]:
        """Return the configured value of each trait in :data:`SETTING_TRAITS` that is not None.

        Spawners share the values, so the caller must not change them.
        """
        kind = type(self)
        written = {
            name: trait.peek(self) if isinstance(trait := getattr(kind, name), SharedDict) else getattr(self, name)
            for name in SETTING_TRAITS
        }
        return {name: value for name, value in written.items() if value is not None}

    _form_found_in: ClassVar[tuple[type | None, Config | None, bool]] = (None, None, False)

    def has_configured_form(self) -> bool:
        """Return whether the admin has a form of their own: ``options_form`` or ``options_from_form``.

        The admin may configure these traits, or define them or their defaults in a subclass of the spawner. The method
        runs often, for example for each server in JupyterHub's list of users. The class therefore caches the result for
        the last ``config`` object, which JupyterHub gives to all spawners.
        """
        cls = type(self)
        if cls._form_found_in[0] is not cls or cls._form_found_in[1] is not self.config:
            found = _defines_form(cls) or not _FORM_TRAITS.isdisjoint(self._find_my_config(self.config))
            cls._form_found_in = (cls, self.config, found)
        return cls._form_found_in[2]


def _defines_form(cls: type) -> bool:
    subclasses = takewhile(lambda each: GPUSpawnerTraits not in each.__bases__, cls.__mro__)
    names = _FORM_TRAITS | {f"_{name}_default" for name in _FORM_TRAITS}  # traitlets finds defaults by these names
    return any(
        not names.isdisjoint(vars(subclass))
        or not _FORM_TRAITS.isdisjoint(vars(subclass).get("_trait_default_generators", ()))
        for subclass in subclasses
    )


def find_subclass_traits() -> dict[str, TraitType[Any, Any]]:
    """Return the configurable traits that subclasses of the spawner add to it, by name.

    The hub's process has one such class at most, which the admin wrote; its traits may stand in a
    ``kubespawner_override``.
    """
    found: dict[str, TraitType[Any, Any]] = {}
    for spawner in GPUSpawnerTraits.__subclasses__():
        known = spawner.class_trait_names(config=True)
        classes = spawner.__subclasses__()
        while classes:
            cls = classes.pop()
            classes += cls.__subclasses__()
            found |= {name: trait for name, trait in cls.class_traits(config=True).items() if name not in known}
    return found
