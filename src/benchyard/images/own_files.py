"""The files of the default image that are ours: accounts, shells, sudo; none of them comes from the host."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchyard.images.user_layer import HOSTS

USER_ID = 1000
"""Of the user `user` in the default image."""

_NOLOGIN = "/usr/sbin/nologin"
_ACCOUNTS = """\
daemon 1 1 /usr/sbin
bin 2 2 /bin
sys 3 3 /dev
sync 4 65534 /bin
games 5 60 /usr/games
man 6 12 /var/cache/man
lp 7 7 /var/spool/lpd
mail 8 8 /var/mail
news 9 9 /var/spool/news
uucp 10 10 /var/spool/uucp
proxy 13 13 /bin
www-data 33 33 /var/www
backup 34 34 /var/backups
list 38 38 /var/list
irc 39 39 /run/ircd
_apt 42 65534 /nonexistent
nobody 65534 65534 /nonexistent
"""
_GROUPS = """\
root 0  daemon 1  bin 2  sys 3  adm 4  tty 5  disk 6  lp 7  mail 8  news 9  uucp 10  man 12  proxy 13  kmem 15
dialout 20  fax 21  voice 22  cdrom 24  floppy 25  tape 26  sudo 27  audio 29  dip 30  www-data 33  backup 34
operator 37  list 38  irc 39  src 40  shadow 42  utmp 43  video 44  sasl 45  plugdev 46  staff 50  games 60
users 100  nogroup 65534  user 1000
"""
_PROFILE = """\
: "${PATH:=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}"
export PATH
if [ -d /etc/profile.d ]; then
  for each in /etc/profile.d/*.sh; do
    if [ -r "$each" ]; then . "$each"; fi
  done
  unset each
fi
if [ -n "${BASH_VERSION-}" ] && [ -n "${PS1-}" ] && [ -f /etc/bash.bashrc ]; then . /etc/bash.bashrc; fi
"""
_BASHRC = """\
[ -z "${PS1-}" ] && return
shopt -s checkwinsize
PS1='\\u@\\h:\\w\\$ '
if [ -f /usr/share/bash-completion/bash_completion ]; then . /usr/share/bash-completion/bash_completion; fi
"""
_HOME_PROFILE = """\
for each in "$HOME/bin" "$HOME/.local/bin"; do
  if [ -d "$each" ]; then PATH="$each:$PATH"; fi
done
unset each
if [ -n "${BASH_VERSION-}" ] && [ -f "$HOME/.bashrc" ]; then . "$HOME/.bashrc"; fi
"""
_HOME_BASHRC = """\
case $- in *i*) ;; *) return ;; esac
HISTCONTROL=ignoreboth
alias ls='ls --color=auto'
"""
_NSSWITCH = """\
passwd: files
group: files
shadow: files
gshadow: files
hosts: files dns
networks: files
protocols: files
services: files
ethers: files
rpc: files
"""
_SUDOERS = """\
Defaults !use_pty
Defaults secure_path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
root ALL=(ALL:ALL) ALL
user ALL=(ALL:ALL) NOPASSWD: ALL
@includedir /etc/sudoers.d
"""
_PAM_OPEN = """\
auth     sufficient pam_permit.so
account  required   pam_permit.so
password required   pam_unix.so
session  required   pam_permit.so
"""
_PAM_LOCKED = """\
auth     sufficient pam_rootok.so
auth     required   pam_unix.so
account  required   pam_permit.so
password required   pam_unix.so
session  required   pam_permit.so
"""
_PAM_PARTS = {
    "common-auth": "auth required pam_unix.so\n",
    "common-account": "account required pam_unix.so\n",
    "common-password": "password required pam_unix.so\n",
    "common-session": "session required pam_permit.so\n",
    "common-session-noninteractive": "session required pam_permit.so\n",
}
_PAM_SERVICES = ("other", "su", "su-l", "runuser", "runuser-l", "login", "passwd", "chpasswd", "chsh", "chfn")


@dataclass(frozen=True)
class OwnFile:
    """One file we write, for an owner."""

    path: str
    text: str
    mode: int = 0o644
    owner: tuple[int, int] = (0, 0)


def own_files(root: Path) -> Iterator[OwnFile]:
    """All files of ours that make sense over the system below `root`."""
    shell = "/bin/bash" if (root / "usr/bin/bash").exists() or (root / "bin/bash").exists() else "/bin/sh"
    yield OwnFile("etc/passwd", _passwd(shell))
    yield OwnFile("etc/group", _group())
    yield OwnFile("etc/shadow", _shadow(), 0o640, (0, 42))
    yield OwnFile("etc/hostname", "devbox\n")
    yield OwnFile("etc/hosts", HOSTS.decode())
    yield OwnFile("etc/profile", _PROFILE)
    yield OwnFile("etc/bash.bashrc", _BASHRC)
    yield OwnFile("etc/nsswitch.conf", _NSSWITCH)
    yield OwnFile("etc/environment", "")
    yield OwnFile("etc/fstab", "")
    user = (USER_ID, USER_ID)
    yield OwnFile("home/user/.profile", _HOME_PROFILE, owner=user)
    yield OwnFile("home/user/.bashrc", _HOME_BASHRC, owner=user)
    yield OwnFile("root/.profile", _HOME_PROFILE)
    yield OwnFile("root/.bashrc", _HOME_BASHRC)
    yield OwnFile("etc/skel/.profile", _HOME_PROFILE)
    yield OwnFile("etc/skel/.bashrc", _HOME_BASHRC)
    if (root / "etc/apt").is_dir():
        yield OwnFile("etc/apt/apt.conf.d/90benchyard", 'APT::Sandbox::User "root";\n')
    if (root / "etc/pam.d").is_dir():
        yield from _pam()
    if (root / "usr/bin/sudo").exists():
        yield OwnFile("etc/sudoers", _SUDOERS, 0o440)


def _pam() -> Iterator[OwnFile]:
    for name in _PAM_SERVICES:
        yield OwnFile(f"etc/pam.d/{name}", _PAM_LOCKED)
    for name in ("sudo", "sudo-i"):
        yield OwnFile(f"etc/pam.d/{name}", _PAM_OPEN)
    for name in ("system-auth", "password-auth"):
        yield OwnFile(f"etc/pam.d/{name}", _PAM_LOCKED)
    for name, text in _PAM_PARTS.items():
        yield OwnFile(f"etc/pam.d/{name}", text)


def _passwd(shell: str) -> str:
    lines = [f"root:x:0:0:root:/root:{shell}"]
    for line in _ACCOUNTS.splitlines():
        name, uid, gid, home = line.split()
        lines.append(f"{name}:x:{uid}:{gid}:{name}:{home}:{'/bin/sync' if name == 'sync' else _NOLOGIN}")
    lines.append(f"user:x:{USER_ID}:{USER_ID}:user:/home/user:{shell}")
    return "\n".join(lines) + "\n"


def _group() -> str:
    words = _GROUPS.split()
    pairs = zip(words[::2], words[1::2], strict=True)
    return "".join(f"{name}:x:{number}:{'user' if name == 'sudo' else ''}\n" for name, number in pairs)


def _shadow() -> str:
    names = ["root", *(line.split()[0] for line in _ACCOUNTS.splitlines()), "user"]
    return "".join(f"{name}:*:19000:0:99999:7:::\n" for name in names)
