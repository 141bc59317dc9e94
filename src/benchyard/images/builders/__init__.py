"""Engines that build images from Dockerfiles, one module each, and what they share."""
