"""The Kubernetes manifests: clean YAML, the fields that matter, flags and keys that the daemon has, and probes and
capabilities tried out with a real daemon. No cluster is involved."""

import os
import re
import shutil
import subprocess
import sys
import unittest

import yaml

from deploy_files import DEPLOY, DRAIN_SECONDS, FLAG, SOURCE, daemon_flags, daemon_keys

sys.path.insert(0, str(SOURCE / "tests" / "e2e"))
import permitted  # noqa: E402
from farm import BIN, WORKER_UIDS, Farm  # noqa: E402

FOLDER = DEPLOY / "kubernetes"
LINT = "{extends: default, rules: {line-length: {max: 120}}}"
KINDS = {"agent.yaml": ["DaemonSet"], "control.yaml": ["Service", "PodDisruptionBudget", "Deployment"]}


def documents(name):
    return {document["kind"]: document for document in yaml.safe_load_all((FOLDER / name).read_text())}


def pods():
    """File name, pod and its one container."""
    for name, kind in (("agent.yaml", "DaemonSet"), ("control.yaml", "Deployment")):
        pod = documents(name)[kind]["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        yield name, pod, container


def capabilities():
    return next(container for name, _, container in pods() if name == "agent.yaml")["securityContext"]["capabilities"]["add"]


class Manifests(unittest.TestCase):
    def test_yamllint_is_content(self):
        subprocess.run(["yamllint", "-s", "-d", LINT, FOLDER], check=True)

    def test_what_is_there(self):
        self.assertEqual({path.name for path in FOLDER.glob("*.yaml")}, set(KINDS))
        for name, kinds in KINDS.items():
            self.assertEqual(list(documents(name)), kinds)
        versions = {kind: document["apiVersion"] for name in KINDS for kind, document in documents(name).items()}
        self.assertEqual(versions, {"DaemonSet": "apps/v1", "Deployment": "apps/v1", "PodDisruptionBudget": "policy/v1",
                                    "Service": "v1"})

    def test_labels_hang_together(self):
        for name, kind in (("agent.yaml", "DaemonSet"), ("control.yaml", "Deployment")):
            spec = documents(name)[kind]["spec"]
            self.assertEqual(spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"])
        control = documents("control.yaml")
        labels = control["Deployment"]["spec"]["template"]["metadata"]["labels"]
        self.assertEqual(control["Service"]["spec"]["selector"], labels)
        self.assertEqual(control["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"], labels)
        (spread,) = control["Deployment"]["spec"]["template"]["spec"]["topologySpreadConstraints"]
        self.assertEqual(spread["labelSelector"]["matchLabels"], labels)

    def test_two_control_daemons_of_which_one_stays(self):
        control = documents("control.yaml")
        self.assertEqual(control["Deployment"]["spec"]["replicas"], 2)
        self.assertEqual(control["PodDisruptionBudget"]["spec"]["minAvailable"], 1)

    def test_agents_call_the_service(self):
        service = documents("control.yaml")["Service"]
        (port,) = service["spec"]["ports"]
        for name, _, container in pods():
            if name == "agent.yaml":
                self.assertIn(f"--control={service['metadata']['name']}:{port['port']}", container["args"])
            else:
                (own,) = container["ports"]
                self.assertEqual((own["name"], own["containerPort"]), (port["targetPort"], port["port"]))
                self.assertIn(f"--listen=0.0.0.0:{port['port']}", container["args"])

    def test_flags_and_keys_are_the_daemons(self):
        flags, keys = daemon_flags(), daemon_keys()
        for name, _, container in pods():
            used = {flag for argument in container["args"] for flag in FLAG.findall(argument.split("=")[0])}
            self.assertLessEqual(used, flags, f"{name} uses flags that tunefarmd --help does not list")
            for variable in container["env"]:
                if variable["name"].startswith("TUNEFARM_"):
                    self.assertIn(variable["name"].removeprefix("TUNEFARM_").lower(), keys, name)

    def test_secrets_come_from_secrets(self):
        for name, pod, container in pods():
            (tls,) = [volume for volume in pod["volumes"] if volume["name"] == "tls"]
            self.assertEqual((tls["secret"]["secretName"].endswith("-tls"), tls["secret"]["defaultMode"]), (True, 0o440))
            paths = {argument.split("=")[1] for argument in container["args"] if argument.startswith("--tls-")}
            self.assertEqual(paths, {f"/etc/tunefarm/tls/{file}" for file in ("tls.crt", "tls.key", "ca.crt")}, name)
            self.assertNotIn("postgres", " ".join(container["args"]))
        store = next(container for name, _, container in pods() if name == "control.yaml")["env"][0]
        self.assertIn("secretKeyRef", store["valueFrom"])

    def test_every_mount_is_a_volume(self):
        for name, pod, container in pods():
            self.assertEqual({mount["name"] for mount in container["volumeMounts"]},
                             {volume["name"] for volume in pod["volumes"]}, name)

    def test_the_grace_is_longer_than_a_drain(self):
        for name, pod, _ in pods():
            self.assertGreater(pod["terminationGracePeriodSeconds"], DRAIN_SECONDS if name == "agent.yaml" else 30)

    def test_privileges(self):
        for name, pod, container in pods():
            own = container["securityContext"]
            self.assertEqual((pod["automountServiceAccountToken"], own["readOnlyRootFilesystem"],
                              own["capabilities"]["drop"], own.get("privileged", False)), (False, True, ["ALL"], False), name)
            for key in ("hostNetwork", "hostPID", "hostIPC"):
                self.assertNotIn(key, pod)
            self.assertEqual(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault")
            self.assertFalse([volume for volume in pod["volumes"] if "hostPath" in volume])
            self.assertEqual(set(container["resources"]), {"requests", "limits"})
            if name == "control.yaml":
                self.assertTrue(pod["securityContext"]["runAsNonRoot"])
                self.assertFalse(own["allowPrivilegeEscalation"])
                self.assertNotIn("add", own["capabilities"])
            else:
                # Its capabilities count within the pod only.
                self.assertIs(pod["hostUsers"], False)
                self.assertEqual(own["procMount"], "Unmasked")
                self.assertEqual(container["resources"]["limits"]["nvidia.com/gpu"],
                                 container["resources"]["requests"]["nvidia.com/gpu"])


class Tried(unittest.TestCase):
    """What a daemon on this machine can tell about them."""

    def probe(self, container, kind, port):
        command = [part.replace("/7071", f"/{port}") for part in container[kind]["exec"]["command"]]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=600).returncode

    def test_the_probes_tell_a_daemon_that_serves_from_one_that_does_not(self):
        with Farm("--http-listen", "127.0.0.1:0") as farm:
            farm.start()
            port = re.search(r":(\d+)", farm.info()["http_address"]).group(1)
            for name, _, container in pods():
                for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
                    self.assertEqual(self.probe(container, kind, port), 0, f"{name}: {kind}")
            farm.kill()
            for name, _, container in pods():
                for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
                    self.assertNotEqual(self.probe(container, kind, port), 0, f"{name}: {kind}")

    @unittest.skipIf(os.geteuid() != 0, "only root can give a process some of its capabilities")
    def test_the_agents_capabilities_suffice_for_full_isolation(self):
        permitted.require_worker_namespaces()
        names = ",".join("+" + name.lower() for name in capabilities())
        self.assertRegex(self.level("setpriv", f"--bounding-set=-all,{names}", f"--inh-caps=-all,{names}"), "^L1")

    @unittest.skipIf(os.geteuid() != 0, "only root can take its own capabilities away")
    def test_none_of_them_is_there_for_nothing(self):
        permitted.require_worker_namespaces()
        # SYS_ADMIN, SETUID and SETGID: without any of them workers reach less, or none.
        for name in ("SYS_ADMIN", "SETUID", "SETGID"):
            kept = ",".join("+" + other.lower() for other in capabilities() if other != name)
            self.assertNotRegex(self.level("setpriv", f"--bounding-set=-all,{kept}", f"--inh-caps=-all,{kept}"), "^L1", name)

    def level(self, *prefix):
        """What isolation the workers of a daemon reach that is started so."""
        with Farm() as farm:
            with open(farm.log, "ab") as log:
                farm.process = subprocess.Popen(
                    [*prefix, BIN / "tunefarmd", "--data-dir", farm.directory, "--no-gpu", *WORKER_UIDS],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(os.environ, TUNEFARM_SHARE_HOST="1"))
            while not farm._answers():
                pass
            return farm.info().get("sandbox_level", "")


if __name__ == "__main__":
    assert shutil.which("yamllint"), "yamllint is missing; install Debian's yamllint"
    permitted.main()
