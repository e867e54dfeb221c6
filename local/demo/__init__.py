"""One run that proves the guarantee: real deployment, real faults, evidence from outside."""
