"""The way of a commit to the disk: drafts, groups, the active file, group commit."""
