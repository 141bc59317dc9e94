"""The `benchyard` command: one file per noun, one function per verb."""
