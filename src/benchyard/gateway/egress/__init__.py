"""The egress proxy of devboxes: what may be reached, and how it is passed on."""
