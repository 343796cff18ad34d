"""The command `oms`: words, progress and exit codes for people and scripts."""
