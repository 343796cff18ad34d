"""Tests of broker/kernel/participants."""
