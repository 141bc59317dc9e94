"""Hosts: the machines that hold devboxes, with their drivers, images and execution files."""
