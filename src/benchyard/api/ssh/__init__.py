"""Ssh into devboxes: a server of our own, whose sessions are executions, so that an image needs no sshd."""
