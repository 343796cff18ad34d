"""Tests of the pages for who works on oms: what they say is so."""
