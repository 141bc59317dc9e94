"""Images of devboxes, made of ordered layers, and the store of images and snapshots."""
