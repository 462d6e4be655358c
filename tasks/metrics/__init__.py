"""Measures, one file each, with source and parameters. Of this project they import only `schemas`."""
