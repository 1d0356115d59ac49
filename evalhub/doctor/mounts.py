"""On what kind of file system a path lies."""

from pathlib import Path

from evalhub.web.disks import standing_part

MOUNTS = Path("/proc/self/mounts")
REMOTE = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre"),
        *("fuse.sshfs", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse", "fuse.glusterfs"),
    }
)
"""Shared between machines: locks and shared memory do not work as on a disk."""
VOLATILE = frozenset({"tmpfs", "ramfs", "overlay", "aufs"})


def file_system_of(path: Path, *, mounts: Path = MOUNTS) -> str:
    """Return the kind of file system below a path, as the kernel names it; empty if it does not say."""
    if not mounts.exists():
        return ""
    resolved = standing_part(path).resolve()
    deepest, kind = -1, ""
    for line in mounts.read_text().splitlines():
        _, point, found, *_ = line.split()
        # The kernel writes a space in a name as \040.
        place = Path(point.encode().decode("unicode_escape"))
        if resolved.is_relative_to(place) and len(place.parts) >= deepest:
            deepest, kind = len(place.parts), found
    return kind
