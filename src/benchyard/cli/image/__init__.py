"""`benchyard image`, `snapshot` and `blueprint`: what devboxes start from."""
