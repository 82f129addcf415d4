"""What is looked at: SHOW, VERIFY, SUBSCRIBE, dumps and commits."""
