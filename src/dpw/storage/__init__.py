"""Files that are whole or absent and checked when read: model folders, run folders, checkpoints, logs."""
