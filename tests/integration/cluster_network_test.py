#!/usr/bin/env python3
"""`mpirun -n 4 fulcrum select` between four network namespaces, whose links have 1 Gbit/s and, if the kernel has netem, 1 ms.

    FULCRUM=build/mpi/bin/fulcrum tests/integration/cluster_network_test.py [ROWS [DIMS]]

The batch must be that of one process, and what the ranks report as sent must be what their interfaces carried, within a
tenth and 2 MB for the launcher. Without the limits of the links it runs once more, and both times are printed: the
processor and the wall time, the second only of use on an idle machine. Exit code 77: skipped, because the program has no MPI
or this machine does not let it make namespaces."""
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

NODES = 4
PREFIX = f"fulcrum{os.getpid()}"
SLACK_BYTES = 2_000_000


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def run(*words, check=True, **more):
    return subprocess.run([str(word) for word in words], check=check, text=True, capture_output=True, **more)


class Network:
    """Namespaces with an address each, on a bridge in a namespace of its own."""

    def __init__(self):
        self.spaces = [f"{PREFIX}n{i}" for i in range(NODES)]
        self.hub = f"{PREFIX}hub"
        self.delay = True

    def __enter__(self):
        try:
            run("ip", "netns", "add", self.hub)
            run("ip", "-n", self.hub, "link", "add", "br0", "type", "bridge")
            run("ip", "-n", self.hub, "link", "set", "br0", "up")
            for i, space in enumerate(self.spaces):
                run("ip", "netns", "add", space)
                run("ip", "-n", space, "link", "add", "eth0", "type", "veth", "peer", "name", f"port{i}", "netns", self.hub)
                run("ip", "-n", self.hub, "link", "set", f"port{i}", "master", "br0", "up")
                run("ip", "-n", space, "addr", "add", f"10.77.0.{i + 1}/24", "dev", "eth0")
                run("ip", "-n", space, "link", "set", "eth0", "up")
                run("ip", "-n", space, "link", "set", "lo", "up")
        except (subprocess.CalledProcessError, FileNotFoundError) as error:
            self.__exit__()
            skip(f"network namespaces: {getattr(error, 'stderr', error)}")
        return self

    def __exit__(self, *_):
        for space in [*self.spaces, self.hub]:
            run("ip", "netns", "del", space, check=False)

    def limit(self):
        """1 Gbit/s out of each node, and 1 ms from any to any other if the kernel can delay."""
        for space in self.spaces:
            delayed = run("tc", "-n", space, "qdisc", "add", "dev", "eth0", "root", "netem", "rate", "1gbit", "delay", "1ms", "limit", "100000", check=False)
            if delayed.returncode != 0:
                self.delay = False
                run("tc", "-n", space, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "1gbit", "burst", "256kb", "latency", "100ms")

    def sent(self):
        """Bytes that left the nodes."""
        total = 0
        for space in self.spaces:
            lines = run("ip", "netns", "exec", space, "cat", "/proc/net/dev").stdout.splitlines()
            total += sum(int(line.split(":")[1].split()[8]) for line in lines if line.strip().startswith("eth0:"))
        return total


def agent_of(folder):
    """What mpirun starts its daemons with instead of ssh: a namespace per address, with a host name of its own."""
    agent = folder / "agent"
    agent.write_text(f"""#!/bin/sh
node=${{1##*.}}; shift
exec ip netns exec {PREFIX}n$((node - 1)) unshare --uts sh -c "hostname node$node; $*"
""")
    agent.chmod(0o755)
    return agent


def measure(network, agent, words):
    """What mpirun printed, the bytes on the links, and the seconds: of the wall and of the processors."""
    addresses = ",".join(f"10.77.0.{i + 1}:1" for i in range(NODES))
    before, start, begun = network.sent(), time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run("ip", "netns", "exec", network.spaces[0], "unshare", "--uts", "sh", "-c", 'hostname node1; exec "$@"', "sh",
               "mpirun", "--allow-run-as-root", "--bind-to", "none", "--mca", "plm_rsh_agent", agent, "--mca", "btl", "tcp,self",
               "--mca", "btl_tcp_if_include", "10.77.0.0/24", "--mca", "oob_tcp_if_include", "10.77.0.0/24",
               "--host", addresses, "-n", NODES, *words, check=False)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        print(done.stderr)
        sys.exit(f"mpirun ended with {done.returncode}")
    processor = ended.ru_utime + ended.ru_stime - begun.ru_utime - begun.ru_stime
    return done.stderr, network.sent() - before, time.monotonic() - start, processor


def main():
    rows, dims = (int(sys.argv[i]) if len(sys.argv) > i else default for i, default in ((1, 40_000), (2, 16)))
    program = os.environ["FULCRUM"]
    if not re.search(r"(?m)^ +MPI ", run(program, "--version").stdout):
        skip("the program was built without FULCRUM_MPI")
    for tool in ("mpirun", "ip", "tc", "unshare"):
        if not shutil.which(tool):
            skip(f"{tool} is not installed")
    with tempfile.TemporaryDirectory(prefix="fulcrum-network-") as name, Network() as network:
        folder = pathlib.Path(name)
        csv = folder / "pool.csv"
        run(program, "generate", "ringnorm", "--rows", rows, "--dims", dims, "--seed", 1, "--out", csv)
        with csv.open() as lines:
            next(lines)
            labels = [next(lines).split(",")[0] for _ in range(100)]
        (folder / "labels.csv").write_text("id,label\n" + "".join(f"{i},{label}\n" for i, label in enumerate(labels)))
        run(program, "import", csv, "--label", "label", "--out", folder / "pool")
        csv.unlink()
        words = [program, "select", "--pool", folder / "pool", "--labels", folder / "labels.csv", "--strategy", "dbalevs",
                 "--engine", "landmark", "--no-refine", "--tune", "off", "--batch", 100, "--threads", 1, "--verbose", "--out"]
        run(*words, folder / "one.csv")
        agent = agent_of(folder)
        free = measure(network, agent, [*words, folder / "free.csv"])
        network.limit()
        limited = measure(network, agent, [*words, folder / "limited.csv"])
        for batch in ("free.csv", "limited.csv"):
            assert (folder / batch).read_text() == (folder / "one.csv").read_text(), f"{batch} is not the batch of one process"
        reported = sum(int(count) for count in re.findall(r"rank \d+ on \S+ sent (\d+) bytes", limited[0]))
        hosts = set(re.findall(r"rank \d+ on (\S+) sent", limited[0]))
        assert len(hosts) == NODES, f"ranks on {hosts}"
        print(f"{rows} x {dims}: sent {reported} bytes by the ranks' account, {limited[1]} on the links ({limited[1] / reported:.3f})")
        print(f"without limits {free[2]:.1f} s wall, {free[3]:.1f} s processor; with 1 Gbit/s"
              f"{' and 1 ms' if network.delay else ' (this kernel has no netem: no delay)'} {limited[2]:.1f} s wall, "
              f"{limited[3]:.1f} s processor ({limited[2] / free[2]:.2f})")
        assert abs(limited[1] - reported) <= 0.1 * reported + SLACK_BYTES, "the account of the ranks is wrong"


if __name__ == "__main__":
    main()
