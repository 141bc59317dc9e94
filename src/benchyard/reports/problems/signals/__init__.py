"""The signals: each module is one."""
