#!/usr/bin/env python3
"""Checks the manifests: all referenced names exist, and nothing runs as root."""

import os
import shutil
import subprocess

import yaml_files

FOLDER = yaml_files.folder("deploy/kubernetes")


def load(name):
    return yaml_files.documents(os.path.join(FOLDER, name))


def pod_of(document):
    spec = document["spec"]
    return (spec["jobTemplate"]["spec"] if document["kind"] == "CronJob" else spec)["template"]["spec"]


def labels_of(document):
    spec = document["spec"]
    return (spec["jobTemplate"]["spec"] if document["kind"] == "CronJob" else spec)["template"]["metadata"]["labels"]


def selects(labels, document):
    return labels.items() <= labels_of(document).items()


def check_selectors(by_kind, daemon, others):
    """Service, policy and disruption budget select the daemon's pod and no other pod."""
    selectors = {
        "StatefulSet": daemon["spec"]["selector"]["matchLabels"],
        "Service": by_kind["Service", "fulcrum"]["spec"]["selector"],
        "NetworkPolicy": by_kind["NetworkPolicy", "fulcrum"]["spec"]["podSelector"]["matchLabels"],
        "PodDisruptionBudget": by_kind["PodDisruptionBudget", "fulcrum"]["spec"]["selector"]["matchLabels"],
    }
    for kind, labels in selectors.items():
        assert selects(labels, daemon), f"{kind} does not select the daemon"
        for other in others:
            assert not selects(labels, other), f"{kind} selects the pods of {other['metadata']['name']}"


UNITS = {"GB": 10**9, "MB": 10**6, "Gi": 2**30, "Mi": 2**20}


def bytes_of(text):
    return int(text[:-2]) * UNITS[text[-2:]]


def check_pod(name, pod, more_volumes=()):
    assert pod["securityContext"]["runAsNonRoot"] is True, name
    volumes = {volume["name"] for volume in pod["volumes"]} | set(more_volumes)
    for container in pod["containers"]:
        limits = container["securityContext"]
        assert limits["allowPrivilegeEscalation"] is False and limits["readOnlyRootFilesystem"] is True, name
        assert limits["capabilities"]["drop"] == ["ALL"], name
        assert "memory" in container["resources"]["limits"], name
        for mount in container["volumeMounts"]:
            assert mount["name"] in volumes, f"{name}: unknown volume {mount['name']}"
        ports = {port["name"] for port in container.get("ports", [])}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if probe in container:
                assert container[probe]["httpGet"]["port"] in ports, f"{name}: {probe} uses an unknown port"


def main():
    kustomization = load("kustomization.yaml")[0]
    documents = [document for name in kustomization["resources"] for document in load(name)]
    by_kind = {(document["kind"], document["metadata"]["name"]): document for document in documents}
    daemon = by_kind["StatefulSet", "fulcrum"]
    assert ("Service", daemon["spec"]["serviceName"]) in by_kind
    assert daemon["spec"]["replicas"] == 1, "only one daemon may write a campaign"
    check_pod("StatefulSet", pod_of(daemon), [claim["metadata"]["name"] for claim in daemon["spec"]["volumeClaimTemplates"]])
    check_pod("CronJob", pod_of(by_kind["CronJob", "fulcrum-select"]))
    [first_token] = load("first-token.yaml")
    check_pod("Job", pod_of(first_token))
    check_selectors(by_kind, daemon, [by_kind["CronJob", "fulcrum-select"], first_token])
    [claim] = daemon["spec"]["volumeClaimTemplates"]
    claim_name = f"{claim['metadata']['name']}-{daemon['metadata']['name']}-0"
    assert pod_of(first_token)["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim_name
    container = pod_of(daemon)["containers"][0]
    policy_ports = {port["port"] for rule in by_kind["NetworkPolicy", "fulcrum"]["spec"]["ingress"] for port in rule["ports"]}
    assert policy_ports == {port["name"] for port in container["ports"]}
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()
    claims = {name for kind, name in by_kind if kind == "PersistentVolumeClaim"}
    generated = {generator["name"] for generator in kustomization["configMapGenerator"]}
    for document in (daemon, by_kind["CronJob", "fulcrum-select"]):
        for volume in pod_of(document)["volumes"]:
            if "persistentVolumeClaim" in volume:
                assert volume["persistentVolumeClaim"]["claimName"] in claims, volume
            if "configMap" in volume:
                assert volume["configMap"]["name"] in generated, volume
    served = {port["targetPort"] for port in by_kind["Service", "fulcrum"]["spec"]["ports"]}
    assert served == {port["name"] for port in container["ports"]}
    config = load("fulcrum.yaml")[0]
    configured = {config[name].rsplit(":", 1)[1] for name in ("listen", "metrics", "web")}
    assert configured == {str(port["containerPort"]) for port in container["ports"]}
    assert configured == {str(port["port"]) for port in by_kind["Service", "fulcrum"]["spec"]["ports"]}
    limit, budget = bytes_of(container["resources"]["limits"]["memory"]), bytes_of(config["memory_budget"])
    assert limit / 2 < budget < 0.8 * limit, "memory_budget must be below the memory limit, and not far below"
    grace = pod_of(daemon)["terminationGracePeriodSeconds"]
    assert grace > config["stop_seconds"], "the pod would be killed during shutdown"
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {config["data"], config["pools"], os.path.dirname(config["tls"]["cert"])} <= mounted

    if shutil.which("kubectl") is None:
        print("kubectl is not installed: kustomize was not checked")
        return
    built = subprocess.run(["kubectl", "kustomize", FOLDER], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    kinds = sorted(document["kind"] for document in yaml_files.documents_of(built.stdout))
    assert kinds == ["ConfigMap", "CronJob", "NetworkPolicy", "PersistentVolumeClaim", "PodDisruptionBudget", "Service",
                     "StatefulSet"], kinds


if __name__ == "__main__":
    main()
