"""Devboxes made with the kernel's own features: the driver `native` and its own parts."""
