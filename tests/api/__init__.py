"""The API attacked like the disk: calls made at random, wrong ones too, at bad moments, held against a plain model."""
