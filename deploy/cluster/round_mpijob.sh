#!/bin/bash
# A round of a campaign as a job of the Kubernetes MPI operator (kubeflow.org/v2beta1). In the configuration of the daemon:
#   cluster_launchers: {kubernetes: /usr/local/lib/fulcrum/round_mpijob.sh}
# The daemon adds the command that each process runs: FULCRUM round --plan FILE. It needs kubectl and a service account that
# may create, get and delete MPIJobs and read the log of pods. The claim shows the data folder of the daemon, which has it on
# a local disk (docs/cluster.md).
set -euo pipefail
image=${FULCRUM_MPI_IMAGE:-fulcrum-mpi:latest}
claim=${FULCRUM_CLAIM:-fulcrum-data}
folder=${FULCRUM_DATA_FOLDER:-/var/lib/fulcrum}
workers=${FULCRUM_WORKERS:-4}
user=$(id -u)

# Once per plan: a name of its own.
name=fulcrum-round-$(basename "$(dirname "${!#}")")
words=$(printf '"%s", ' "$@")
words=${words%, }
remove() { kubectl delete mpijob "$name" --ignore-not-found --wait=false > /dev/null; }
trap remove EXIT
trap 'exit 143' TERM INT

container() {
  cat << YAML
            - name: $1
              image: $image
              volumeMounts: [{name: data, mountPath: $folder}]
YAML
}
volumes() {
  cat << YAML
          securityContext: {runAsUser: $user, fsGroup: $user}
          volumes: [{name: data, persistentVolumeClaim: {claimName: $claim}}]
YAML
}
kubectl create -f - > /dev/null << YAML
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: $name}
spec:
  slotsPerWorker: 1
  runPolicy: {cleanPodPolicy: Running, backoffLimit: 0, ttlSecondsAfterFinished: 3600}
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        spec:
          containers:
$(container launcher)
              command: [mpirun, --bind-to, none, -n, "$workers", $words]
$(volumes)
    Worker:
      replicas: $workers
      template:
        spec:
          containers:
$(container worker)
              resources: {limits: {cpu: "32", memory: 32Gi}}
$(volumes)
YAML

# Until the job has ended. The pause is in the background, so that a signal is handled at once.
state() { kubectl get mpijob "$name" -o jsonpath="{.status.conditions[?(@.type=='$1')].status}"; }
while [ "$(state Succeeded)" != True ]; do
  if [ "$(state Failed)" = True ]; then
    kubectl logs --tail=10 -l "training.kubeflow.org/job-name=$name,training.kubeflow.org/job-role=launcher" >&2 || true
    exit 75
  fi
  sleep 2 &
  wait $!
done
