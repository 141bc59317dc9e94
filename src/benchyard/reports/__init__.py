"""WHAT CAME OUT: results of jobs as numbers, tables and files; pure functions over models."""
