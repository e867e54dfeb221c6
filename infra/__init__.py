"""The CDK application: one construct per concern, composed by stacks."""
