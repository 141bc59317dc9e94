"""`benchyard image`, `snapshot` and `blueprint`: the origins of devboxes."""
