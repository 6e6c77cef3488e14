# SPDX-License-Identifier: Apache-2.0
"""A StatefulSet without Kubernetes: what its controller and the kubelets do with the manifest, on this machine.

Each pod has a user namespace, a network, a host name and an IPC namespace of its own; each of its containers is run by an
OCI runtime, as tests/lib/pod.py describes. Honoured are, as the manifest has them: replicas and ordinals; the volume claims,
by ordinal, which outlive their pod; ConfigMaps, Secrets, emptyDirs (for all to write, as the kubelet makes them) and
hostPaths; init containers in their order, and those that run as long as the pod; command, args, env and securityContext of
each container, but for AppArmor; startup, liveness and readiness probes with their periods and limits; lifecycle.preStop;
the end of a pod: SIGTERM to the containers, to those that outlive them when they have ended, and SIGKILL to what is left
after terminationGracePeriodSeconds; updateStrategy RollingUpdate, from the last pod on, each awaited ready, with its
partition; the headless Service with publishNotReadyAddresses as the network of the pod that has the name at the moment;
the budget of disruptions, for evictions.

Not honoured: images (each is a directory of programs beside this machine's /usr), resources and quality of service,
priority, tolerations and topology (there is one node), the NetworkPolicy, idmapped mounts of volumes (their files are given
to the pod's ids instead), restarts of a container that has ended (Pod.died has it), and accessModes."""

import json
import os
import subprocess
import threading
import time

import pod as oci
import procfs

PASSWD = {**oci.USERS, "sshd": 101}
TURN = 0.1  # seconds


class Container:
    """A container of a pod, run by crun."""

    def __init__(self, pod, spec, words, joined=True):
        self.pod, self.spec = pod, spec
        self.id = f"{pod.id}-{spec['name']}"
        bundle = pod.place / spec["name"]
        bundle.mkdir()
        oci.image(bundle / "root", oci.BASE)
        finish_image(bundle / "root")
        context = spec["securityContext"]
        linux = oci.namespaces(context, host_users=False)
        if joined:
            linux = {**linux, "namespaces": pod.namespaces()}
            del linux["uidMappings"], linux["gidMappings"]
        process = oci.process(spec, words)
        process["env"] += [f"HOSTNAME={pod.name}"] + [f"{each['name']}={each['value']}" for each in spec.get("env", [])]
        config = {"ociVersion": "1.0.2", "process": process, "linux": linux,
                  "root": {"path": "root", "readonly": context["readOnlyRootFilesystem"]},
                  "mounts": list(oci.mounts(spec, pod.volumes, pod.programs(spec)))}
        if not joined:
            config["hostname"] = pod.name
        (bundle / "config.json").write_text(json.dumps(config))
        self.log_path, self.pid_path = bundle / "log", bundle / "pid"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [*pod.runtime, "run", "--pid-file", str(self.pid_path), "--bundle", str(bundle), self.id],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def pid(self):
        """Waits for it to run. Returns the pid of its first process."""
        assert procfs.eventually(lambda: self.pid_path.exists() and self.pid_path.read_text() or self.ended()), self.log()
        return int(self.pid_path.read_text())

    def ended(self):
        return self.process.poll() is not None

    def signal(self, name):
        subprocess.run([*self.pod.runtime, "kill", self.id, name], capture_output=True, check=False)

    def run(self, words, timeout=60):
        """Runs a program in the container, as the kubelet's probes do. Returns its exit status."""
        try:
            return subprocess.run([*self.pod.runtime, "exec", self.id, *words], stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=timeout, check=False).returncode
        except subprocess.TimeoutExpired:
            return -1


def finish_image(root):
    """What the recipe of the second image adds, which has sshd."""
    for path in ("run/sshd", "etc/ssh", "metrics"):
        (root / path).mkdir(parents=True, exist_ok=True)
    (root / "etc/passwd").write_text("".join(f"{name}:x:{n}:{n}::/:/bin/sh\n" for name, n in PASSWD.items()))
    for path in [root / "run/sshd", root / "etc/ssh", root / "metrics", root / "etc/passwd"]:
        os.lchown(path, oci.BASE, oci.BASE)


class Probe:
    """A container's probe: when it is due, and what it has said so often that it counts."""

    def __init__(self, container, spec, now):
        self.container, self.spec = container, spec
        self.period, self.timeout = spec.get("periodSeconds", 10), spec.get("timeoutSeconds", 1)
        self.limits = {True: spec.get("successThreshold", 1), False: spec.get("failureThreshold", 3)}
        self.due, self.says, self.row = now + spec.get("initialDelaySeconds", 0), None, 0

    def turn(self):
        """Asks if it is time to. Returns True or False once that has been said often enough in a row, otherwise None."""
        if time.monotonic() < self.due:
            return None
        said = self.container.run(self.spec["exec"]["command"], self.timeout) == 0
        self.due = time.monotonic() + self.period
        self.row = self.row + 1 if said == self.says else 1
        self.says = said
        return said if self.row >= self.limits[said] else None


class Pod:
    """A pod of the set from its start to its end, with its kubelet."""

    made = 0

    def __init__(self, owner, ordinal, template):
        Pod.made += 1
        self.owner, self.ordinal, self.name = owner, ordinal, f"{owner.name}-{ordinal}"
        self.spec = template["spec"]
        self.image = next(each["image"] for each in self.spec["containers"] if each["name"] == "cloister")
        self.id = f"cloister-test-{os.getpid()}-set-{Pod.made}"
        self.runtime = oci.runtime()
        self.place = owner.place / f"{self.name}.{Pod.made}"
        self.place.mkdir()
        self.volumes = Volumes(self.place / "volumes", self.spec, owner, ordinal)
        self.ready, self.terminating, self.died, self.killed = False, False, [], []
        self.lock = threading.Lock()  # held while a probe runs, and while the pod begins to end
        # The pod's own namespaces, which its containers join.
        plain = {"name": "pause", "volumeMounts": [], "securityContext": {
            "runAsUser": 0, "runAsGroup": 0, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
            "capabilities": {}, "procMount": "Unmasked", "seccompProfile": {"type": "Unconfined"}}}
        self.pause = None
        self.pause = Container(self, plain, ["/usr/bin/sleep", "infinity"], joined=False)
        self.pause.pid()
        self.sidecars, self.containers = [], []
        for spec in self.spec.get("initContainers", []):
            self.initialize(spec)
        self.containers = [self.begin(spec) for spec in self.spec["containers"]]
        self.kubelet = threading.Thread(target=self.watch)
        self.kubelet.start()

    def programs(self, spec):
        return self.owner.images[spec.get("image", self.image).split(":")[1]]

    def namespaces(self):
        pid = self.pause.pid()
        joined = [{"type": kind, "path": f"/proc/{pid}/ns/{name}"}
                  for kind, name in (("user", "user"), ("network", "net"), ("ipc", "ipc"), ("uts", "uts"))]
        return joined + [{"type": kind} for kind in ("pid", "mount", "cgroup")]

    def begin(self, spec):
        # The entry points of the two images, Containerfile.
        words = [*spec.get("command", ["cloisterd"]), *spec.get("args", [])]
        return Container(self, spec, words)

    def initialize(self, spec):
        container = self.begin(spec)
        if spec.get("restartPolicy") == "Always":
            container.pid()
            self.sidecars.append(container)
        else:
            assert container.process.wait(120) == 0, (spec["name"], container.log())

    def container(self, name):
        (found,) = [each for each in self.sidecars + self.containers if each.spec["name"] == name]
        return found

    def watch(self):
        """What the kubelet does while the pod runs: first the startup probe, then the others."""
        now, probes, started = time.monotonic(), {}, set()
        everyone = self.sidecars + self.containers
        for each in everyone:
            for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
                if kind in each.spec:
                    probes[each, kind] = Probe(each, each.spec[kind], now)
        says = {each: "readinessProbe" not in each.spec for each in everyone}
        while not self.terminating:
            self.died += [each.spec["name"] for each in everyone if each.ended() and each.spec["name"] not in self.died]
            for (each, kind), probe in probes.items():
                waits = (each, "startupProbe") in probes and each not in started
                if (kind == "startupProbe") != waits:
                    continue
                with self.lock:
                    said = None if self.terminating else probe.turn()
                if said is None:
                    continue
                if kind == "readinessProbe":
                    says[each] = said
                elif said and kind == "startupProbe":
                    started.add(each)
                elif not said:
                    self.died.append(f"{each.spec['name']} by its {kind}")
            self.set_ready(all(says.values()) and not self.died)
            time.sleep(TURN)

    def set_ready(self, now):
        with self.lock:
            if now and not self.ready and not self.terminating:
                try:
                    self.owner.before_ready(self)
                except AssertionError as error:
                    self.died.append(f"{self.name}: {error}")
                    return
            self.ready = now and not self.terminating

    def end(self):
        """Ends the pod as the kubelet does when it was deleted."""
        with self.lock:
            self.terminating, self.ready = True, False
        self.kubelet.join()
        until = time.monotonic() + self.spec["terminationGracePeriodSeconds"]
        for each in self.sidecars + self.containers:
            hook = each.spec.get("lifecycle", {}).get("preStop")
            if hook:
                each.run(hook["exec"]["command"], max(1, until - time.monotonic()))
        for each in self.containers:
            each.signal("TERM")
        self.owner.after_signal(self)
        self.await_end(self.containers, until)
        for each in reversed(self.sidecars):
            each.signal("TERM")
            self.await_end([each], until)
        self.owner.after_end(self)
        self.remove()

    def await_end(self, containers, until):
        for each in containers:
            try:
                each.process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.killed.append(each.spec["name"])
                each.signal("KILL")
                each.process.wait(60)

    def remove(self):
        """Ends at once what is left."""
        self.terminating = True
        if getattr(self, "kubelet", None) and self.kubelet.is_alive():
            self.kubelet.join()
        for each in [*self.containers, *self.sidecars, self.pause]:
            if not each.ended():
                each.signal("KILL")
                each.process.wait(60)

    def logs(self):
        return "\n".join(f"{self.name} {each.spec['name']}: {each.log()}" for each in self.sidecars + self.containers)


class Volumes(oci.Volumes):
    """The volumes of one pod. Those that are claimed are of the set."""

    def __init__(self, path, spec, owner, ordinal):
        super().__init__(path, spec, owner.config_maps, oci.BASE)
        for volume in spec["volumes"]:
            place = self.paths[volume["name"]]
            if "secret" in volume:
                self.fill(place, owner.secrets[volume["secret"]["secretName"]])
                for name in [place, *place.rglob("*")]:
                    os.lchown(name, self.base, self.base)
                    if name.is_file() and not name.is_symlink():
                        name.chmod(volume["secret"].get("defaultMode", 0o644))
        for claim in owner.spec["volumeClaimTemplates"]:
            self.paths[claim["metadata"]["name"]] = owner.claim(ordinal, claim["metadata"]["name"])


class StatefulSet:
    """The controller. @images maps the tag of an image to a directory of programs. Hooks are called before a pod is
    told to end, when it has been told, when it has ended, and before it counts as ready."""

    def __init__(self, place, objects, images, secrets, config_maps):
        def of_kind(kind):
            return [thing for thing in objects if thing["kind"] == kind]
        (thing,), (service,), (budget,) = of_kind("StatefulSet"), of_kind("Service"), of_kind("PodDisruptionBudget")
        self.place, self.name, self.spec = place, thing["metadata"]["name"], thing["spec"]
        self.images, self.secrets = images, secrets
        assert service["spec"]["publishNotReadyAddresses"] is True and service["spec"]["clusterIP"] == "None"
        assert self.spec["updateStrategy"]["type"] == "RollingUpdate" and self.spec["podManagementPolicy"] == "Parallel"
        self.budget = budget["spec"]["maxUnavailable"]
        self.config_maps = {**{each["metadata"]["name"]: each["data"] for each in of_kind("ConfigMap")}, **config_maps}
        self.before_end = self.before_ready = self.after_signal = self.after_end = lambda pod: None
        self.pods, self.ended = {}, []

    def claim(self, ordinal, name):
        path = self.place / f"{name}-{self.name}-{ordinal}"
        if not path.exists():
            path.mkdir(mode=0o755)
            os.chown(path, oci.BASE, oci.BASE)
        return path

    def start(self):
        for ordinal in range(self.spec["replicas"]):
            self.pods[ordinal] = Pod(self, ordinal, self.spec["template"])
        self.await_ready(self.pods.values())

    def await_ready(self, pods):
        for pod in pods:
            assert procfs.eventually(lambda pod=pod: pod.ready or pod.died) and not pod.died, (pod.died, pod.logs())

    def ready(self):
        return {pod.name for pod in list(self.pods.values()) if pod.ready}

    def replace(self, ordinal):
        """Ends a pod, and starts it again with its claim, from the template of the moment."""
        self.before_end(self.pods[ordinal])
        self.pods[ordinal].end()
        self.ended.append(self.pods[ordinal])
        self.pods[ordinal] = Pod(self, ordinal, self.spec["template"])
        self.await_ready([self.pods[ordinal]])

    def update(self, template):
        """The rolling update to another template."""
        self.spec["template"] = template
        first = self.spec["updateStrategy"].get("rollingUpdate", {}).get("partition", 0)
        for ordinal in range(self.spec["replicas"] - 1, first - 1, -1):
            self.await_ready(self.pods.values())
            self.replace(ordinal)

    def may_evict(self):
        """What the API answers to who drains a node: whether one pod more may be missing."""
        return self.budget - (self.spec["replicas"] - len(self.ready())) > 0

    def stop(self):
        for pod in self.pods.values():
            pod.remove()
