"""What IAM would decide, without AWS: policies evaluated offline, for tests.

Written here because nothing that is maintained fits: the Python packages around IAM lint and expand
policies but evaluate no conditions, moto ignores conditions, and the one full simulator is a Node
library under the AGPL. The evaluator fails closed: what it does not know raises `Undecidable`.
"""
