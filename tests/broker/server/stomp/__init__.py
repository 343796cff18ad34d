"""Tests of broker/server/stomp."""
