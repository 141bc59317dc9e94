"""Ssh into devboxes: a server of our own, whose sessions are executions, so that an image needs no sshd.

All but `transport` is built on asyncssh, and loaded once somebody uses ssh: it looks for libraries as it is
imported.
"""
