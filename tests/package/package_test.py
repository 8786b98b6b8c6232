#!/usr/bin/env python3
"""Installs the packages of build/packages in a Debian made by debootstrap with nothing else in it, labels there in a
browser of this machine and through the API as JSON, upgrades, and removes. The Python wheel with the extension module is installed in another such system.

Needs root and a Debian archive; exit code 77: skipped. `./dev test package` builds the packages first. The bare system is
kept in $FULCRUM_CACHE, so that only the first run downloads it.
"""
import contextlib
import fcntl
import hashlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(os.environ["FULCRUM_SOURCE"])
PACKAGES = SOURCE / "build" / "packages"
CACHE = pathlib.Path(os.environ.get("FULCRUM_CACHE", pathlib.Path.home() / ".cache" / "fulcrum"))
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def run(*words, **options):
    shown = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           check=False, **options)
    if shown.returncode != 0:
        sys.exit(f"'{' '.join(map(str, words))}' failed with {shown.returncode}:\n{shown.stdout[-4000:]}")
    return shown.stdout


def in_root(root, *words, **options):
    return run("chroot", root, *words, env=ENVIRONMENT, **options)


def archive():
    """The address of the archive and the release of this machine."""
    release = dict(re.findall(r'^(\w+)="?([^"\n]*)', pathlib.Path("/etc/os-release").read_text(), re.M))["VERSION_CODENAME"]
    lines = run("apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)", "Created-By: Packages").splitlines()
    found = [line.split()[0] for line in lines if line.split()[1:] == [release]]
    return (found[0], release) if found else skip("no apt source is a Debian archive")


def bare_system(folder, name="root"):
    """Unpacks the bare system into `folder`; makes it first if it is not in the cache."""
    address, release = archive()
    CACHE.mkdir(parents=True, exist_ok=True)
    kept = CACHE / f"bare-{release}.tar"
    if not kept.exists():
        made = folder / "made"
        run("debootstrap", "--variant=minbase", release, made, address)
        run("tar", "-C", made, "-cf", f"{kept}.part", ".")
        os.rename(f"{kept}.part", kept)
        shutil.rmtree(made)
    root = folder / name
    root.mkdir()
    run("tar", "-C", root, "-xpf", kept)
    for name in ("resolv.conf", "hosts"):
        shutil.copy(f"/etc/{name}", root / "etc" / name)
    return root


@contextlib.contextmanager
def mounted(root):
    run("mount", "-t", "proc", "proc", root / "proc")
    run("mount", "--bind", "/dev", root / "dev")
    try:
        yield
    finally:
        run("umount", root / "dev")
        run("umount", root / "proc")


def try_tarball(root):
    """Before anything is installed: the tarball needs no package."""
    tarball, = PACKAGES.glob("fulcrum-*.tar.xz")
    place = root / "opt" / "some place"
    place.mkdir(parents=True)
    run("tar", "-C", place, "-xf", tarball)
    program = f"/opt/some place/{tarball.name.removesuffix('.tar.xz')}/bin/fulcrum"
    in_root(root, program, "generate", "ringnorm", "--rows", "300", "--seed", "1", "--out", "/tmp/pool.csv")
    classes = [line.split(",")[0] for line in (root / "tmp" / "pool.csv").read_text().splitlines()[1:]]
    labels = "".join(f"{classes.index(name)},{name}\n" for name in set(classes))
    (root / "tmp" / "labels.csv").write_text("id,label\n" + labels)
    in_root(root, program, "select", "--pool", "/tmp/pool.csv", "--labels", "/tmp/labels.csv", "--batch", "3", "--out",
            "/tmp/batch.csv")
    assert len((root / "tmp" / "batch.csv").read_text().splitlines()) == 4
    shutil.rmtree(place)


def install(root, package, how="install"):
    shutil.copy(package, root / "tmp" / "fulcrum.deb")
    in_root(root, "apt-get", "-y", "-q", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confold", how,
            "/tmp/fulcrum.deb")


def check_files(root):
    assert "fulcrum:x:" in (root / "etc" / "passwd").read_text(), "no user"
    for name in ("lib/systemd/system/fulcrum.service", "etc/fulcrum/fulcrum.yaml", "usr/share/man/man1/fulcrum-serve.1.gz",
                 "usr/share/bash-completion/completions/fulcrum", "usr/share/doc/fulcrum/copyright"):
        assert (root / name).exists(), f"the package has no {name}"
    needed = in_root(root, "ldd", "/usr/bin/fulcrum")
    assert "not found" not in needed, needed
    assert re.search(r"libarrow\S* => /usr/bin/../lib/fulcrum/", needed), f"Arrow is not the bundled one:\n{needed}"


class Call:
    def __init__(self, token):
        self.headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}

    def __call__(self, method, message):
        connection = http.client.HTTPConnection("127.0.0.1", 7412, timeout=60)
        connection.request("POST", f"/fulcrum.v1.{method}", json.dumps(message), self.headers)
        response = connection.getresponse()
        body = json.loads(response.read())
        assert response.status == 200, f"{method}: {response.status} {body}"
        return body


@contextlib.contextmanager
def daemon(root):
    """The daemon as the unit starts it: its command, as its user."""
    unit = (root / "lib/systemd/system/fulcrum.service").read_text()
    command = re.search(r"^ExecStart=(.*)", unit, re.M)[1].split()
    user = re.search(r"^User=(.*)", unit, re.M)[1]
    process = subprocess.Popen(["chroot", str(root), "runuser", "-u", user, "--", *command], env=ENVIRONMENT,
                               stderr=subprocess.PIPE, text=True)
    lines = []
    for line in process.stderr:
        lines.append(line)
        if 'message=listening' in line or '"listening"' in line:
            break
    else:
        sys.exit("the daemon does not start:\n" + "".join(lines))
    try:
        yield
    finally:
        child = int(pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
        os.kill(child, signal.SIGTERM)
        process.stderr.read()
        assert process.wait() == 0, "the daemon does not stop in order"


def token(root, name, role):
    return in_root(root, "runuser", "-u", "fulcrum", "--", "fulcrum", "token", "create", "--data", "/var/lib/fulcrum",
                   "--name", name, "--role", role).strip()


def create_campaign(root, call):
    in_root(root, "runuser", "-u", "fulcrum", "--", "fulcrum", "generate", "ringnorm", "--rows", "500", "--seed", "1", "--out",
            "/var/lib/fulcrum/pools/pool.csv")
    answer = call("CampaignService/CreateCampaign", {"spec": {
        "name": "rings", "pool": {"sources": ["pool.csv"]}, "classes": ["-1", "1"], "selection": {"batch": 5}}})
    while answer["operation"]["state"] in ("OPERATION_STATE_QUEUED", "OPERATION_STATE_RUNNING"):
        answer = call("OperationService/GetOperation", {"operation": answer["operation"]["name"]})
    call("CampaignService/StartCampaign", {"campaign": "rings"})


def label(call, request):
    task = call("LabelingService/AcquireTasks", {"campaign": "rings", "requestId": f"a{request}", "maxTasks": 1,
                                                 "wait": "30s"})["tasks"][0]
    result = call("LabelingService/SubmitLabels", {"campaign": "rings", "requestId": f"s{request}", "labels": [{
        "lease": {"leaseId": task["leaseId"], "epoch": task["epoch"]}, "itemId": task["itemId"], "value": "1"}]})
    assert "sequence" in result["results"][0], result


def own_network():
    """Daemons listen on their default ports in a network of their own."""
    if os.environ.get("FULCRUM_OWN_NETWORK") != "1":
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        flags = struct.pack("16sH14s", b"lo", 0x41, b"")  # up and running
        fcntl.ioctl(any_socket, 0x8914, flags)  # SIOCSIFFLAGS


def phase(name, root):
    """Runs a phase of this test in a network of its own."""
    return run("unshare", "-n", sys.executable, __file__, name, root, env={**os.environ, "FULCRUM_OWN_NETWORK": "1"})


def label_in_browser(call, bearer):
    """Signs in on the page and answers with a key, in the Chromium of this machine; False if it has none."""
    try:
        from selenium import webdriver
        from selenium.webdriver.common.by import By
        from selenium.webdriver.support.ui import WebDriverWait
    except ImportError:
        return False
    if not shutil.which("chromium") or not shutil.which("chromedriver"):
        return False
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    browser = webdriver.Chrome(options=options)
    try:
        wait = WebDriverWait(browser, 30, poll_frequency=0.02)
        browser.get("http://127.0.0.1:7412/#/label/rings")
        wait.until(lambda page: page.find_elements(By.ID, "token"))[0].send_keys(bearer + "\n")
        wait.until(lambda page: page.find_elements(By.CSS_SELECTOR, ".payload"))
        browser.find_element(By.TAG_NAME, "body").send_keys("1")
        wait.until(lambda _: call("LabelingService/ListLabelingCampaigns", {})["campaigns"][0].get("labels") == "1")
    finally:
        browser.quit()
    return True


def first_label(root):
    with daemon(root):
        admin, anna = Call(token(root, "me", "admin")), token(root, "anna", "annotator")
        (root / "var/lib/fulcrum/anna.token").write_text(anna)
        create_campaign(root, admin)
        if label_in_browser(Call(anna), anna):
            print("in the browser")
        else:
            label(Call(anna), 1)
            print("by a call, because chromium, chromium-driver or python3-selenium is not installed")


def label_after_upgrade(root):
    anna = Call((root / "var/lib/fulcrum/anna.token").read_text())
    with daemon(root):
        label(anna, 2)
        listed = anna("LabelingService/ListLabelingCampaigns", {})["campaigns"][0]
        assert listed["labels"] == "2", f"labels were lost: {listed}"


CHECK_OF_SERVICE = """#!/bin/bash
exec > /root/service.log 2>&1
systemctl start fulcrum && systemctl is-active fulcrum && systemctl stop fulcrum && systemctl is-active fulcrum
poweroff
"""


def try_service(folder):
    """Starts and stops the unit under a real systemd, in a container without a network."""
    if shutil.which("systemd-nspawn") is None:
        print("not tried: the unit under systemd, because systemd-nspawn is not installed")
        return
    root = folder / "service"
    run("cp", "-ax", folder / "root", root)  # without what is mounted
    in_root(root, "apt-get", "-y", "-q", "--no-install-recommends", "install", "systemd-sysv", "dbus")
    (root / "root/check").write_text(CHECK_OF_SERVICE)
    (root / "root/check").chmod(0o755)
    unit = root / "etc/systemd/system/check.service"
    unit.write_text("[Unit]\nAfter=multi-user.target\n[Service]\nType=oneshot\nExecStart=/root/check\n")
    (root / "etc/systemd/system/multi-user.target.wants").mkdir(exist_ok=True)
    (root / "etc/systemd/system/multi-user.target.wants/check.service").symlink_to("/etc/systemd/system/check.service")
    subprocess.run(["timeout", "120", "systemd-nspawn", "--boot", "--quiet", "--private-network", "--register=no", "--keep-unit",
                    f"--directory={root}"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   check=False)
    log = root / "root/service.log"
    if not log.exists():
        print("not tried: the unit under systemd, because this machine cannot boot a container")
        return
    lines = log.read_text().split()
    assert lines == ["active", "inactive"], f"systemctl start fulcrum: {log.read_text()}"
    print("systemctl start and stop: ok")


USE_OF_WHEEL = """
import numpy as np, pathlib, fulcrum.api
from fulcrum import core
X = np.random.RandomState(1).normal(size=(300, 5))
y = np.full(300, np.nan)
y[:20] = X[:20, 0] > 0
assert len(core.select(X, y, batch=7)) == 7
scores = core.leverage_scores(X, kernel="rbf", sigma=2.0, tau=0.5, engine="dense")
assert abs(scores.sum() - round(scores.sum())) < 1e-6, scores.sum()
assert fulcrum.api.message("fulcrum.v1.CampaignSpec")(name="x").name == "x"
own = pathlib.Path(fulcrum.__file__).parent / "lib"
used = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
foreign = {each for each in used if ("libmkl" in each or "libtbb" in each or "libarrow" in each) and own != pathlib.Path(each).parent}
assert not foreign, foreign
"""


def try_wheel(folder):
    """The wheel with the extension module needs nothing but Python and the packages that it declares."""
    wheels = [each for each in PACKAGES.glob("fulcrum-*.whl") if "-none-any" not in each.name]
    assert len(wheels) == 1, wheels
    root = bare_system(folder, "python")
    with mounted(root):
        in_root(root, "apt-get", "update")
        in_root(root, "apt-get", "-y", "-q", "--no-install-recommends", "install", "python3-pip", "python3-numpy",
                "python3-grpcio", "python3-protobuf")
        shutil.copy(wheels[0], root / "tmp")
        in_root(root, "python3", "-m", "pip", "install", "-q", "--no-index", "--break-system-packages", "--root-user-action=ignore",
                f"/tmp/{wheels[0].name}")
        in_root(root, "python3", "-c", USE_OF_WHEEL)
    shutil.rmtree(root)
    print("the wheel with fulcrum.core: ok")


def check_bill(package, folder):
    """The bill of materials names every library of the package, with its checksum."""
    bill, = PACKAGES.glob("fulcrum-*.spdx.json")
    listed = {each["name"]: each for each in json.loads(bill.read_text())["packages"]}
    place = folder / "listed"
    run("dpkg-deb", "-x", package, place)
    files = [place / "usr/bin/fulcrum", *(place / "usr/lib/fulcrum").iterdir()]
    assert len(files) > 2, files
    for file in files:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        assert {"algorithm": "SHA256", "checksumValue": digest} in listed[file.name]["checksums"], file.name
    depends = run("dpkg-deb", "-f", package, "Depends")
    for name in re.findall(r"(?:^|, )([a-z0-9.+-]+)", depends):
        assert name in listed or name in ("passwd", "adduser"), f"{name} of '{depends}' is not in the bill of materials"
    assert listed["fulcrum"]["versionInfo"] in package.name
    shutil.rmtree(place)


def newer(package, folder):
    """The same package with a later version and another default configuration."""
    changed = folder / "newer"
    run("dpkg-deb", "-R", package, changed)
    control = changed / "DEBIAN" / "control"
    control.write_text(re.sub(r"^Version: (.*)$", r"Version: \1+1", control.read_text(), flags=re.M))
    with (changed / "etc/fulcrum/fulcrum.yaml").open("a") as config:
        config.write("# A newer default.\n")
    run("dpkg-deb", "-Znone", "--build", changed, folder / "newer.deb")
    shutil.rmtree(changed)
    return folder / "newer.deb"


def check_removal(root):
    in_root(root, "apt-get", "-y", "-q", "remove", "fulcrum")
    assert not (root / "usr/bin/fulcrum").exists()
    assert (root / "etc/fulcrum/fulcrum.yaml").exists(), "the configuration is gone before a purge"
    in_root(root, "apt-get", "-y", "-q", "purge", "fulcrum")
    assert not (root / "etc/fulcrum").exists(), "the configuration stays after a purge"
    assert (root / "var/lib/fulcrum/campaigns/rings/campaign.db").exists(), "the labels are gone"


def main():
    if os.geteuid() != 0:
        skip("needs root")
    if shutil.which("debootstrap") is None:
        skip("debootstrap is not installed")
    packages = sorted(PACKAGES.glob("fulcrum_*.deb"))
    if not packages:
        skip(f"{PACKAGES} has no Debian package; run ./dev package")
    run("sha256sum", "--check", "--quiet", "SHA256SUMS", cwd=PACKAGES)
    with tempfile.TemporaryDirectory(prefix="fulcrum-package-") as name:
        folder = pathlib.Path(name)
        check_bill(packages[0], folder)
        try_wheel(folder)
        root = bare_system(folder)
        with mounted(root):
            try_tarball(root)
            in_root(root, "apt-get", "update")
            start = time.monotonic()
            install(root, packages[0])
            installed = time.monotonic()
            check_files(root)
            how = phase("first-label", root).strip()
            print(f"apt install: {installed - start:.1f} s; from then to the first label, {how}: "
                  f"{time.monotonic() - installed:.1f} s")
            try_service(folder)
            with (root / "etc/fulcrum/fulcrum.yaml").open("a") as config:
                config.write("threads: 1  # ours\n")
            install(root, newer(packages[0], folder))
            assert "# ours" in (root / "etc/fulcrum/fulcrum.yaml").read_text(), "an upgrade replaced the configuration"
            phase("upgraded", root)
            check_removal(root)


if __name__ == "__main__":
    own_network()
    if len(sys.argv) > 1:
        {"first-label": first_label, "upgraded": label_after_upgrade}[sys.argv[1]](pathlib.Path(sys.argv[2]))
    else:
        main()
