"""Harbor's form of tasks and registries, read and written."""
