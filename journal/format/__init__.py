"""What is on disk, as bytes: pure, but for the manifest, which reads and puts itself."""
