"""Ssh into devboxes: a server whose sessions are executions, so that images need no sshd.

All modules but `transport` are built on asyncssh, and loaded at the first use of ssh: its import searches for
libraries, which takes time.
"""
