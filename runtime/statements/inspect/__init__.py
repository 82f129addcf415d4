"""Statements that only read: SHOW, VERIFY, SUBSCRIBE, dumps and commits."""
