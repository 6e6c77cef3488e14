# SPDX-License-Identifier: Apache-2.0
"""Tar archives and OCI image layouts for tests of imports, also such as no tool would make."""

import bz2
import gzip
import hashlib
import io
import json
import lzma
import platform
import subprocess
import tarfile

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
LAYER = "application/vnd.oci.image.layer.v1.tar"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
COMPRESSIONS = {"plain": bytes, "gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress,
                "zstd": lambda data: subprocess.run(["zstd", "-cq"], input=data, stdout=subprocess.PIPE, check=True).stdout}


def entry(name, kind=tarfile.REGTYPE, content=b"", **more):
    """A member of an archive: (header, content)."""
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mtime = kind, len(content), 1_000_000_000
    info.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
    for key, value in more.items():
        setattr(info, key, value)
    return info, content


def directory(name, **more):
    return entry(name, tarfile.DIRTYPE, **more)


def symlink(name, target, **more):
    return entry(name, tarfile.SYMTYPE, linkname=target, **more)


def hardlink(name, target, **more):
    return entry(name, tarfile.LNKTYPE, linkname=target, **more)


def archive(*entries, form=tarfile.PAX_FORMAT):
    """The bytes of an archive. An entry may also be bytes, which stand in it as they are."""
    out = io.BytesIO()
    for one in entries:
        if isinstance(one, bytes):
            out.write(one)
            continue
        info, content = one
        out.write(info.tobuf(form, "utf-8", "surrogateescape"))
        out.write(content + bytes(-len(content) % 512))
    out.write(bytes(1024))
    return out.getvalue()


class Layout:
    """An image layout in @path that grows."""

    def __init__(self, path):
        self.path = path
        (path / "blobs" / "sha256").mkdir(parents=True)
        (path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        path.chmod(0o755)

    def blob(self, data, media_type, **more):
        """Adds a blob; returns its descriptor."""
        digest = hashlib.sha256(data).hexdigest()
        (self.path / "blobs" / "sha256" / digest).write_bytes(data)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data), **more}

    def layer(self, *entries, compression="gzip"):
        suffix = {"plain": "", "gzip": "+gzip", "zstd": "+zstd"}[compression]
        return self.blob(COMPRESSIONS[compression](archive(*entries)), LAYER + suffix)

    def manifest(self, layers, **more):
        config = self.blob(b'{"architecture": "' + ARCHITECTURE.encode() + b'", "os": "linux"}',
                           "application/vnd.oci.image.config.v1+json")
        text = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers}).encode()
        return self.blob(text, MANIFEST, **more)

    def index(self, *manifests):
        (self.path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": manifests}))
        return self

    def image(self, *layers):
        return self.index(self.manifest(list(layers)))
