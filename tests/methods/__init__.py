"""Tests of the methods, one file each, and the battery that all of them pass."""
