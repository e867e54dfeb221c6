"""Piton: durable workflow DAGs on serverless AWS."""
