"""Devboxes by the kernel's own means: the driver `native`, and what is only its own."""
