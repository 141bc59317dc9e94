"""Escape attempts by system call, run inside a devbox, that would change or reach the kernel and the host."""

import os
import struct
import time
from typing import Any

from benchyard.testing.escapes.runner import Attempt, call, main

Facts = dict[str, Any]
Numbers = tuple[int | None, int | None]

_HERE = -100
_BIND, _REMOUNT = 4096, 32
_SIGCHLD = 17
_PLACE = b"/mnt"
_PAGE = bytes(4096)

# Name of the attempt: the call's numbers on x86_64 and aarch64, and its arguments. Success is a gain.
_CALLS: dict[str, tuple[Numbers, tuple[int | bytes | None, ...]]] = {
    "mount_a_tmpfs": ((165, 40), (b"none", _PLACE, b"tmpfs", 0, None)),
    "mount_proc_again": ((165, 40), (b"proc", _PLACE, b"proc", 0, None)),
    "mount_sysfs": ((165, 40), (b"sysfs", _PLACE, b"sysfs", 0, None)),
    "mount_the_cgroups": ((165, 40), (b"cgroup2", _PLACE, b"cgroup2", 0, None)),
    "mount_an_overlay": ((165, 40), (b"o", _PLACE, b"overlay", 0, b"lowerdir=/proc:/dev")),
    "bind_a_folder": ((165, 40), (b"/proc", _PLACE, None, _BIND, None)),
    "remount_the_root": ((165, 40), (None, b"/", None, _REMOUNT, None)),
    "remount_proc_sys_writable": ((165, 40), (None, b"/proc/sys", None, _REMOUNT | _BIND, None)),
    "make_mounts_shared": ((165, 40), (None, b"/", None, 1 << 20, None)),
    "unmount_a_mask": ((166, 39), (b"/proc/kcore", 2)),
    "unmount_proc": ((166, 39), (b"/proc", 2)),
    "pivot_the_root": ((155, 41), (b"/", b"/mnt")),
    "clone_a_tree": ((428, 428), (_HERE, b"/", 1)),
    "open_a_tree_with_attributes": ((467, 467), (_HERE, b"/", 1, None, 0)),
    "move_a_mount": ((429, 429), (_HERE, b"/proc", _HERE, _PLACE, 0)),
    "open_a_filesystem": ((430, 430), (b"tmpfs", 0)),
    "pick_a_filesystem": ((433, 433), (_HERE, b"/", 0)),
    "mount_what_was_configured": ((432, 432), (0, 0, 0)),
    "change_a_mount": ((442, 442), (_HERE, b"/proc/sys", 0, bytes(8) + b"\1" + bytes(23), 32)),
    "leave_the_user_namespace": ((272, 97), (0x10000000,)),
    "leave_the_mount_namespace": ((272, 97), (0x00020000,)),
    "leave_the_pid_namespace": ((272, 97), (0x20000000,)),
    "leave_the_network_namespace": ((272, 97), (0x40000000,)),
    "leave_the_name_namespace": ((272, 97), (0x04000000,)),
    "leave_the_ipc_namespace": ((272, 97), (0x08000000,)),
    "leave_the_cgroup_namespace": ((272, 97), (0x02000000,)),
    "leave_the_time_namespace": ((272, 97), (0x00000080,)),
    "clone_into_a_user_namespace": ((56, 220), (0x10000000 | _SIGCHLD, 0, 0, 0, 0)),
    "clone_into_a_mount_namespace": ((56, 220), (0x00020000 | _SIGCHLD, 0, 0, 0, 0)),
    "clone3_into_a_user_namespace": ((435, 435), (struct.pack("Q", 0x10000000) + bytes(56), 64)),
    "add_a_key": ((248, 217), (b"user", b"name", b"data", 4, -4)),
    "ask_for_a_key": ((249, 218), (b"user", b"name", None, -4)),
    "read_the_session_keyring": ((250, 219), (0, -3, 1)),
    "load_a_bpf_program": ((321, 280), (5, _PAGE, 128)),
    "make_a_bpf_map": ((321, 280), (0, struct.pack("IIII", 2, 4, 4, 1) + bytes(112), 128)),
    "count_the_processors_events": ((298, 241), (struct.pack("II", 1, 128) + bytes(120), 0, -1, -1, 0)),
    "catch_page_faults": ((323, 282), (0,)),
    "set_up_an_io_ring": ((425, 425), (8, bytes(120))),
    "take_of_the_machines_aio": ((206, 0), (1024, bytes(8))),
    "watch_a_filesystem": ((300, 262), (0x200, 0)),
    "go_first_in_real_time": ((144, 119), (0, 1, struct.pack("i", 1))),
    "go_first_by_a_deadline": (
        (314, 274),
        (0, struct.pack("IIQiIQQQ", 48, 6, 0, 0, 0, 1 << 20, 1 << 21, 1 << 22), 0),
    ),
    "go_first_to_the_disk": ((251, 30), (1, 0, 1 << 13)),
    "slow_the_first_process": ((144, 119), (1, 5, bytes(4))),
    "starve_the_first_process": ((302, 261), (1, 7, struct.pack("QQ", 4, 4), None)),
    "leave_dumps_to_the_host": ((302, 261), (0, 4, struct.pack("qq", -1, -1), None)),
    "make_a_file_handle": ((303, 264), (_HERE, b"/", struct.pack("Ii", 128, 0) + bytes(128), bytes(8), 0)),
    "open_by_a_file_handle": ((304, 265), (_HERE, struct.pack("Iiq", 8, 1, 2), 0)),
    "load_a_module": ((175, 105), (_PAGE, 4096, b"")),
    "load_a_module_from_a_file": ((313, 273), (0, b"", 0)),
    "unload_a_module": ((176, 106), (b"overlay", 2048)),
    "load_another_kernel": ((246, 104), (0, 0, None, 0)),
    "load_another_kernel_from_a_file": ((320, 294), (0, 0, 0, b"", 4)),
    "restart_the_machine": ((169, 142), (-18751827, 672274793, 0, None)),
    "set_the_clock": ((227, 112), (0, struct.pack("qq", int(time.time()), 0))),
    "set_the_clock_the_old_way": ((164, 170), (struct.pack("qq", int(time.time()), 0), None)),
    "steer_the_clock": ((159, 171), (struct.pack("I", 1) + bytes(204),)),
    "steer_one_clock": ((305, 266), (0, struct.pack("I", 1) + bytes(204))),
    "rename_the_machine": ((170, 161), (b"mine", 4)),
    "rename_its_domain": ((171, 162), (b"mine", 4)),
    "swap_to_a_file": ((167, 224), (b"/etc/passwd", 0)),
    "stop_swapping": ((168, 225), (b"/etc/passwd",)),
    "account_into_a_file": ((163, 89), (b"/tmp/account",)),
    "read_the_kernels_log": ((103, 116), (3, bytes(4096), 4096)),
    "reach_the_ports_of_devices": ((173, None), (0x80, 1, 1)),
    "raise_the_port_level": ((172, None), (3,)),
    "hang_up_the_terminal": ((153, 58), ()),
    "set_quotas": ((179, 60), (0x80000100, b"/dev/vda", 0, None)),
    "move_pages_of_the_first_process": ((279, 239), (1, 0, None, None, None, 0)),
    "call_what_is_newer_than_the_filter": ((510, 510), ()),
}


_EPERM, _ENOSYS = 1, 38


def _from_row(name: str, numbers: Numbers, arguments: tuple[int | bytes | None, ...]) -> Attempt:
    def attempt(_facts: Facts) -> str | None:
        try:
            result = call(numbers, *arguments)
        except OSError as error:
            # Any other error comes from a call that was allowed and then rejected its arguments.
            if error.errno in (_EPERM, _ENOSYS):
                raise
            return f"the call was let through: {error}"
        if result == 0 and name.startswith("clone"):
            os._exit(0)
        return f"the call returned {result}"

    attempt.__name__ = name
    return attempt


ATTEMPTS = [_from_row(name, *row) for name, row in _CALLS.items()]

if __name__ == "__main__":
    main(ATTEMPTS)
