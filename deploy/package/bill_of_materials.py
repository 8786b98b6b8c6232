#!/usr/bin/env python3
"""Writes a bill of materials in SPDX 2.3 (JSON): the program, the libraries that the packages bring along, and the Debian
packages that the program was built with and needs.

    bill_of_materials.py STAGE VERSION OUTPUT     STAGE has bin/fulcrum and lib/fulcrum
"""
import hashlib
import json
import pathlib
import re
import subprocess
import sys
from datetime import datetime, timezone

LICENSES = {"libarrow": "Apache-2.0", "libparquet": "Apache-2.0", "libmkl": "LicenseRef-ISSL"}


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def identifier(name):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def debian_packages(program, bundled):
    """Name, version and source package of every installed package that has a library of the program."""
    shown = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    found = {}
    for path in re.findall(r"=> (/\S+)", shown):
        if pathlib.Path(path).name in bundled:
            continue
        real = str(pathlib.Path(path).resolve())
        # /lib is a link to /usr/lib, and dpkg may list a file under either path.
        for place in (real, real.removeprefix("/usr")):
            owner = subprocess.run(["dpkg-query", "-S", place], capture_output=True, text=True, check=False).stdout
            if owner:
                name = owner.split(":")[0]
                line = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version} ${source:Package}", name],
                                      capture_output=True, text=True, check=True).stdout.split()
                found[line[0]] = line
                break
    return [found[name] for name in sorted(found)]


def package(name, version, license_name, **more):
    return {"SPDXID": identifier(name), "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False, "licenseConcluded": license_name, "licenseDeclared": license_name,
            "copyrightText": "NOASSERTION", **more}


def bill(stage, version):
    program = stage / "bin" / "fulcrum"
    libraries = sorted((stage / "lib" / "fulcrum").glob("*.so*"))
    packages = [package("fulcrum", version, "Apache-2.0", checksums=[
        {"algorithm": "SHA256", "checksumValue": sha256(program)}])]
    relations = []
    for library in libraries:
        license_name = next((text for prefix, text in LICENSES.items() if library.name.startswith(prefix)), "NOASSERTION")
        packages.append(package(library.name, "NOASSERTION", license_name, checksums=[
            {"algorithm": "SHA256", "checksumValue": sha256(library)}]))
        relations.append(("SPDXRef-fulcrum", "CONTAINS", identifier(library.name)))
    for name, number, source in debian_packages(program, {library.name for library in libraries}):
        packages.append(package(name, number, "NOASSERTION", externalRefs=[{
            "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
            "referenceLocator": f"pkg:deb/debian/{name}@{number}?upstream={source}"}]))
        relations.append(("SPDXRef-fulcrum", "DEPENDS_ON", identifier(name)))
    digest = hashlib.sha256(json.dumps(packages, sort_keys=True).encode()).hexdigest()
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"fulcrum-{version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/fulcrum-{version}-{digest[:16]}",
        "creationInfo": {"created": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                         "creators": ["Tool: fulcrum-bill-of-materials"]},
        "hasExtractedLicensingInfos": [{
            "licenseId": "LicenseRef-ISSL", "name": "Intel Simplified Software License",
            "extractedText": "See share/doc/fulcrum/copyright."}],
        "packages": packages,
        "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
                           "relatedSpdxElement": "SPDXRef-fulcrum"},
                          *({"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b}
                            for a, kind, b in relations)],
    }


if __name__ == "__main__":
    document = bill(pathlib.Path(sys.argv[1]), sys.argv[2])
    pathlib.Path(sys.argv[3]).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
