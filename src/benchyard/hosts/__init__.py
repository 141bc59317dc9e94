"""ON WHICH MACHINE: the host (one machine's drivers, images and execution files)."""
