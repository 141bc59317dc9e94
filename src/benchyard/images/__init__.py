"""What devboxes start from: images as ordered layers, snapshots, and the store of both."""
