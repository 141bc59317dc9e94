"""What devboxes start from: images, blueprints and how they are built."""
