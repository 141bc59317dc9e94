"""Engines that build images from Dockerfiles, one module each, and their common parts."""
